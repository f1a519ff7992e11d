//! A server under attack: one valid request of every kind to start from, a client that is replaced whenever the server has
//! thrown it out, and the question whether others still get served.

use smb_wire::fscc::{DirInfoClass, FileInfoClass};
use smb_wire::smb2::{
    ChangeNotifyRequest, Command, CreateOptions, Disposition, FileHandle, InfoType, LockFlags, MAXIMAL_ACCESS_TAG,
    QUERY_ON_DISK_ID_TAG, QueryDirectoryFlags, TreeConnectRequest, fsctl,
};

use super::ops::{
    READ, close_message, echo_message, flush_message, ioctl_message, list_message, lock_message, query_message,
    read_message, rename_info, set_message, write_message,
};
use super::{Client, Message, OpenAs, Profile, World, wide};

/// What is attacked.
pub struct Siege {
    pub world: World,
    pub client: Client,
    pub file: FileHandle,
    pub dir: FileHandle,
    pub pipe: FileHandle,
    /// Clients that were thrown out.
    pub lost: usize,
}

impl Siege {
    pub fn new() -> Self {
        let world = World::new();
        world.mkdir("d");
        (0..20).for_each(|i| world.put(&format!("d/entry {i}"), b"x"));
        let nobody = FileHandle { persistent: 0, volatile: 0 };
        let client = world.client(Profile::default());
        let mut siege = Self { world, client, file: nobody, dir: nobody, pipe: nobody, lost: 0 };
        siege.enter();
        siege
    }

    /// A new client, logged in, with a file, a directory and a pipe open.
    fn enter(&mut self) {
        let mut client = self.world.anna();
        client.call(Message { credits: 256, ..echo_message() }).ok();
        let disk = client.tree_id;
        client.tree_connect("IPC$");
        self.pipe = client.create("srvsvc", &OpenAs::default());
        client.tree_id = disk;
        self.file = client.create("victim", &OpenAs::default());
        self.dir = client.create("d", &OpenAs::directory(Disposition::Open).access(READ));
        let old = std::mem::replace(&mut self.client, client);
        old.hang_up();
    }

    /// Goes on with a new client where the old one was thrown out, has lost count of its credits or closed its files.
    pub fn settle(&mut self) {
        self.client.discard();
        let worn = self.client.credits < 64 || self.client.next_id > 1 << 20;
        if self.client.conn.finished().is_some() || worn {
            self.lost += 1;
            self.enter();
        }
    }

    /// Feeds a frame and looks after what becomes of it.
    pub fn attack(&mut self, frame: &[u8]) {
        self.client.feed(frame);
        self.settle();
    }

    /// One request of every kind.
    pub fn valid_requests(&self) -> Vec<Message> {
        let (file, dir) = (self.file, self.dir);
        let contexts = vec![(MAXIMAL_ACCESS_TAG.to_vec(), vec![]), (QUERY_ON_DISK_ID_TAG.to_vec(), vec![])];
        let create = OpenAs { contexts, ..OpenAs::default() }.options(CreateOptions::DELETE_ON_CLOSE);
        let path = wide("\\\\longshore\\data");
        let notify = ChangeNotifyRequest { recursive: true, output_bytes: 4096, handle: dir, filter: 0xfff };
        let negotiate = self.client.negotiate_request();
        let mut requests = vec![
            create.message("d\\new"),
            read_message(file, 0, 100),
            write_message(file, 0, b"twelve bytes"),
            flush_message(file),
            query_message(file, InfoType::File, FileInfoClass::ALL.0, 200),
            query_message(file, InfoType::FileSystem, 5, 200),
            query_message(file, InfoType::Security, 0, 500),
            set_message(file, FileInfoClass::BASIC, &[0; 40]),
            set_message(file, FileInfoClass::RENAME, &rename_info("victim", true)),
            set_message(file, FileInfoClass::LINK, &rename_info("d\\link", true)),
            set_message(file, FileInfoClass::END_OF_FILE, &[3, 0, 0, 0, 0, 0, 0, 0]),
            list_message(dir, DirInfoClass::IdBothDirectory, QueryDirectoryFlags::RESTART_SCANS, "*", 1000),
            lock_message(file, 5, 10, LockFlags::SHARED),
            lock_message(file, 5, 10, LockFlags::UNLOCK),
            ioctl_message(FileHandle::PREVIOUS, fsctl::DFS_GET_REFERRALS, &[4, 0, b'x', 0, 0, 0], 500),
            ioctl_message(self.pipe, fsctl::PIPE_TRANSCEIVE, b"\x05\x00\x0b\x03", 500),
            Message::of(Command::TreeConnect, |out| TreeConnectRequest { flags: 0, path: &path }.put(out)),
            Message::of(Command::ChangeNotify, |out| notify.put(out)),
            Message::of(Command::Negotiate, |out| negotiate.put(out)),
            self.client.setup_message(b"NTLMSSP\0\x01\0\0\0\x97\x82\x08\xe2\0\0\0\0\0\0\0\0"),
            Message::new(Command::OplockBreak, [&[24, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat()),
            Message::new(Command::Cancel, vec![4, 0, 0, 0]),
            echo_message(),
            close_message(dir),
            close_message(file),
            Message::new(Command::TreeDisconnect, vec![4, 0, 0, 0]),
            Message::new(Command::Logoff, vec![4, 0, 0, 0]),
        ];
        for request in &mut requests {
            request.credits = 2;
        }
        requests
    }

    /// The end: others are served as if nothing had happened, and nothing is left behind.
    #[track_caller]
    pub fn lift(self) {
        let Self { world, client, .. } = self;
        let mut other = world.anna();
        other.write_file("afterwards", b"as before");
        assert_eq!(other.read_file("afterwards").unwrap(), b"as before");
        other.hang_up();
        client.hang_up();
        world.assert_nothing_left();
    }
}
