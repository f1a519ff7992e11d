//! What a client does with files, as calls: each sends one request, and answers with what the response says or with its
//! status.

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::fscc::{
    AccessMask, DirInfoClass, DispositionInfo, EndOfFileInfo, FileAttributes, FileInfoClass, RenameFlags, RenameInfo,
    dir_entries,
};
use smb_wire::smb2::{
    CloseRequest, Command, CreateContexts, CreateOptions, CreateRequest, CreateResponse, Disposition, FileHandle,
    FlushRequest, InfoType, IoctlRequest, LockElement, LockFlags, LockRequest, QueryDirectoryFlags,
    QueryDirectoryRequest, QueryInfoRequest, RawContext, ReadRequest, ReadResponse, SetInfoRequest, WriteRequest,
    WriteResponse,
};

use super::{Client, Message, Response, wide};

/// Reading, writing and deleting.
pub const READ_WRITE: AccessMask = AccessMask::from_bits_retain(0x001f_01ff);
/// Reading.
pub const READ: AccessMask = AccessMask::from_bits_retain(0x0012_0089);
/// All the others may do.
pub const SHARE_ALL: u32 = 7;

/// How a file is opened; the default opens or makes it for everything and shares everything.
#[derive(Debug, Clone)]
pub struct OpenAs {
    pub access: AccessMask,
    pub share: u32,
    pub disposition: Disposition,
    pub options: CreateOptions,
    pub attributes: FileAttributes,
    pub contexts: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Default for OpenAs {
    fn default() -> Self {
        Self {
            access: READ_WRITE,
            share: SHARE_ALL,
            disposition: Disposition::OpenIf,
            options: CreateOptions::empty(),
            attributes: FileAttributes::NORMAL,
            contexts: Vec::new(),
        }
    }
}

impl OpenAs {
    /// With this disposition.
    pub fn how(disposition: Disposition) -> Self {
        Self { disposition, ..Self::default() }
    }

    /// To look at only.
    pub fn reader() -> Self {
        Self { access: READ, disposition: Disposition::Open, ..Self::default() }
    }

    /// A directory.
    pub fn directory(disposition: Disposition) -> Self {
        Self { disposition, options: CreateOptions::DIRECTORY_FILE, ..Self::default() }
    }

    /// With these options too.
    pub fn options(mut self, options: CreateOptions) -> Self {
        self.options |= options;
        self
    }

    /// With these rights.
    pub fn access(mut self, access: AccessMask) -> Self {
        self.access = access;
        self
    }

    /// Sharing this.
    pub fn share(mut self, share: u32) -> Self {
        self.share = share;
        self
    }

    /// The request, for a name in UTF-16LE.
    pub fn message_raw(&self, name: &[u8]) -> Message {
        let request = CreateRequest {
            oplock_level: 0,
            impersonation: 2,
            desired_access: self.access.bits(),
            file_attributes: self.attributes.bits(),
            share_access: self.share,
            disposition: self.disposition as u32,
            options: self.options,
            name,
            contexts: CreateContexts::default(),
        };
        let contexts: Vec<_> = self.contexts.iter().map(|(name, data)| RawContext { name, data }).collect();
        Message::of(Command::Create, |out| request.put(&contexts, out))
    }

    /// The request.
    pub fn message(&self, name: &str) -> Message {
        self.message_raw(&wide(name))
    }
}

/// What a CREATE made.
#[derive(Debug, Clone, Copy)]
pub struct Created {
    pub handle: FileHandle,
    pub action: u32,
    pub end_of_file: u64,
    pub attributes: u32,
    pub times: [u64; 4],
}

/// Takes a CREATE's response apart.
pub fn created(response: &Response) -> Result<Created, NtStatus> {
    if response.status() != NtStatus::SUCCESS {
        return Err(response.status());
    }
    let r = CreateResponse::decode(&response.bytes).unwrap();
    Ok(Created {
        handle: r.handle,
        action: r.action,
        end_of_file: r.end_of_file,
        attributes: r.file_attributes,
        times: r.times,
    })
}

/// A READ.
pub fn read_message(handle: FileHandle, offset_bytes: u64, len_bytes: u32) -> Message {
    let request = ReadRequest { flags: 0, len_bytes, offset_bytes, handle, minimum_bytes: 0, channel: 0 };
    Message::of(Command::Read, |out| request.put(out)).paying_for(len_bytes as usize)
}

/// A WRITE.
pub fn write_message(handle: FileHandle, offset_bytes: u64, data: &[u8]) -> Message {
    let request = WriteRequest { flags: 0, offset_bytes, handle, channel: 0, data_offset: 0, data };
    Message::of(Command::Write, |out| request.put(out)).paying_for(data.len())
}

/// A CLOSE.
pub fn close_message(handle: FileHandle) -> Message {
    Message::of(Command::Close, |out| CloseRequest { post_query: false, handle }.put(out))
}

/// A FLUSH.
pub fn flush_message(handle: FileHandle) -> Message {
    Message::of(Command::Flush, |out| FlushRequest { handle }.put(out))
}

/// A QUERY_INFO.
pub fn query_message(handle: FileHandle, info_type: InfoType, class: u8, output_bytes: u32) -> Message {
    let request = QueryInfoRequest {
        info_type: info_type as u8,
        class,
        output_bytes,
        input: &[],
        additional: if info_type == InfoType::Security { 7 } else { 0 },
        flags: 0,
        handle,
    };
    Message::of(Command::QueryInfo, |out| request.put(out)).paying_for(output_bytes as usize)
}

/// A SET_INFO of a file.
pub fn set_message(handle: FileHandle, class: FileInfoClass, input: &[u8]) -> Message {
    let request = SetInfoRequest { info_type: InfoType::File as u8, class: class.0, input, additional: 0, handle };
    Message::of(Command::SetInfo, |out| request.put(out))
}

/// A QUERY_DIRECTORY.
pub fn list_message(
    handle: FileHandle,
    class: DirInfoClass,
    flags: QueryDirectoryFlags,
    pattern: &str,
    output_bytes: u32,
) -> Message {
    let pattern = wide(pattern);
    let request =
        QueryDirectoryRequest { class: class.as_u8(), flags, file_index: 0, handle, pattern: &pattern, output_bytes };
    Message::of(Command::QueryDirectory, |out| request.put(out)).paying_for(output_bytes as usize)
}

/// An IOCTL.
pub fn ioctl_message(handle: FileHandle, code: u32, input: &[u8], max_output_response: u32) -> Message {
    let request = IoctlRequest { code, handle, input, max_input_response: 0, max_output_response, flags: 1 };
    Message::of(Command::Ioctl, |out| request.put(out)).paying_for(max_output_response as usize)
}

/// A LOCK of one range, failing at once.
pub fn lock_message(handle: FileHandle, offset_bytes: u64, len_bytes: u64, flags: LockFlags) -> Message {
    let flags = if flags.contains(LockFlags::UNLOCK) { flags } else { flags | LockFlags::FAIL_IMMEDIATELY };
    let request = LockRequest { sequence: 0, handle, locks: vec![LockElement { offset_bytes, len_bytes, flags }] };
    Message::of(Command::Lock, |out| request.put(out))
}

/// An ECHO.
pub fn echo_message() -> Message {
    Message::of(Command::Echo, smb_wire::smb2::put_four)
}

/// FileRenameInformation.
pub fn rename_info(target: &str, replace: bool) -> Vec<u8> {
    let flags = if replace { RenameFlags::REPLACE_IF_EXISTS } else { RenameFlags::empty() };
    let mut info = Vec::new();
    RenameInfo { flags, root_directory: 0, name: &wide(target) }.encode(&mut info);
    info
}

fn done(response: &Response) -> Result<(), NtStatus> {
    match response.status() {
        NtStatus::SUCCESS => Ok(()),
        status => Err(status),
    }
}

impl Client {
    /// CREATE.
    #[track_caller]
    pub fn try_create(&mut self, name: &str, how: &OpenAs) -> Result<Created, NtStatus> {
        created(&self.call(how.message(name)))
    }

    /// CREATE that succeeds.
    #[track_caller]
    pub fn create(&mut self, name: &str, how: &OpenAs) -> FileHandle {
        match self.try_create(name, how) {
            Ok(created) => created.handle,
            Err(status) => panic!("CREATE {name}: {status:?}"),
        }
    }

    /// READ.
    #[track_caller]
    pub fn try_read(&mut self, handle: FileHandle, offset: u64, len: u32) -> Result<Vec<u8>, NtStatus> {
        let response = self.call(read_message(handle, offset, len));
        done(&response)?;
        Ok(ReadResponse::decode(&response.bytes).unwrap().data.to_vec())
    }

    /// READ that succeeds.
    #[track_caller]
    pub fn read(&mut self, handle: FileHandle, offset: u64, len: u32) -> Vec<u8> {
        self.try_read(handle, offset, len).expect("READ")
    }

    /// WRITE.
    #[track_caller]
    pub fn try_write(&mut self, handle: FileHandle, offset: u64, data: &[u8]) -> Result<u32, NtStatus> {
        let response = self.call(write_message(handle, offset, data));
        done(&response)?;
        Ok(WriteResponse::decode(&response.bytes).unwrap().count_bytes)
    }

    /// WRITE that succeeds.
    #[track_caller]
    pub fn write(&mut self, handle: FileHandle, offset: u64, data: &[u8]) {
        assert_eq!(self.try_write(handle, offset, data), Ok(data.len() as u32));
    }

    /// CLOSE.
    #[track_caller]
    pub fn try_close(&mut self, handle: FileHandle) -> Result<(), NtStatus> {
        done(&self.call(close_message(handle)))
    }

    /// CLOSE that succeeds.
    #[track_caller]
    pub fn close(&mut self, handle: FileHandle) {
        self.try_close(handle).expect("CLOSE");
    }

    /// Opens for reading, reads all, closes.
    #[track_caller]
    pub fn read_file(&mut self, name: &str) -> Result<Vec<u8>, NtStatus> {
        let created = self.try_create(name, &OpenAs::reader())?;
        let len = created.end_of_file as u32;
        let content = if len == 0 { Ok(Vec::new()) } else { self.try_read(created.handle, 0, len) };
        self.close(created.handle);
        content
    }

    /// Makes or overwrites, writes, closes.
    #[track_caller]
    pub fn write_file(&mut self, name: &str, content: &[u8]) {
        let handle = self.create(name, &OpenAs::how(Disposition::OverwriteIf));
        self.write(handle, 0, content);
        self.close(handle);
    }

    /// QUERY_INFO of a file: the status and the output.
    #[track_caller]
    pub fn query(&mut self, handle: FileHandle, class: FileInfoClass, room: u32) -> (NtStatus, Vec<u8>) {
        let response = self.call(query_message(handle, InfoType::File, class.0, room));
        let output = if response.status().is_error() { Vec::new() } else { response.output().to_vec() };
        (response.status(), output)
    }

    /// SET_INFO of a file.
    #[track_caller]
    pub fn set(&mut self, handle: FileHandle, class: FileInfoClass, input: &[u8]) -> Result<(), NtStatus> {
        done(&self.call(set_message(handle, class, input)))
    }

    /// Sets the length.
    #[track_caller]
    pub fn set_len(&mut self, handle: FileHandle, end_of_file: u64) -> Result<(), NtStatus> {
        let mut info = Vec::new();
        EndOfFileInfo { end_of_file }.encode(&mut info);
        self.set(handle, FileInfoClass::END_OF_FILE, &info)
    }

    /// Marks for deletion, or not.
    #[track_caller]
    pub fn dispose(&mut self, handle: FileHandle, delete: bool) -> Result<(), NtStatus> {
        let mut info = Vec::new();
        DispositionInfo { delete }.encode(&mut info);
        self.set(handle, FileInfoClass::DISPOSITION, &info)
    }

    /// Renames.
    #[track_caller]
    pub fn rename(&mut self, handle: FileHandle, target: &str, replace: bool) -> Result<(), NtStatus> {
        self.set(handle, FileInfoClass::RENAME, &rename_info(target, replace))
    }

    /// LOCK of one range, failing at once.
    #[track_caller]
    pub fn lock(&mut self, handle: FileHandle, offset: u64, len: u64, flags: LockFlags) -> Result<(), NtStatus> {
        done(&self.call(lock_message(handle, offset, len, flags)))
    }

    /// FLUSH.
    #[track_caller]
    pub fn flush(&mut self, handle: FileHandle) -> Result<(), NtStatus> {
        done(&self.call(flush_message(handle)))
    }

    /// One QUERY_DIRECTORY: names in order.
    #[track_caller]
    pub fn list_once(
        &mut self,
        handle: FileHandle,
        flags: QueryDirectoryFlags,
        pattern: &str,
        room: u32,
    ) -> Result<Vec<String>, NtStatus> {
        let class = DirInfoClass::IdBothDirectory;
        let response = self.call(list_message(handle, class, flags, pattern, room));
        done(&response)?;
        let names = dir_entries(class, response.output())
            .map(|entry| smb_wire::name::from_utf16le(entry.unwrap().name_utf16))
            .collect();
        Ok(names)
    }

    /// A whole listing in answers of at most `room` bytes, `.` and `..` left out.
    #[track_caller]
    pub fn list(&mut self, directory: &str, pattern: &str, room: u32) -> Result<Vec<String>, NtStatus> {
        let how = OpenAs { access: READ, ..OpenAs::directory(Disposition::Open) };
        let handle = self.try_create(directory, &how)?.handle;
        let mut names = Vec::new();
        let status = loop {
            match self.list_once(handle, QueryDirectoryFlags::empty(), pattern, room) {
                Ok(some) => names.extend(some),
                Err(status) => break status,
            }
        };
        self.close(handle);
        names.retain(|name| name != "." && name != "..");
        if status == NtStatus::NO_MORE_FILES { Ok(names) } else { Err(status) }
    }
}

/// Appends `value` to `bytes`, for bodies nobody should send.
pub fn put_u32(bytes: &mut Vec<u8>, value: u32) {
    bytes.put_u32(value);
}
