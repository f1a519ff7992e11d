//! What the crates `nfs3_client` and `nfs-rs` do with a running server, checked against the share's directory on disk:
//! `nfs-clients HOST PORT SHARE DIR`. The first finds everything through the portmapper that answers on the server's own
//! port; the second speaks versions 3, 4.0, 4.1 and 4.2. Both call from privileged ports: run it as root.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use bytes::Bytes;
use futures_util::TryStreamExt;
use nfs3_client::nfs3_types::nfs3::{self, Nfs3Option, Nfs3Result};
use nfs3_client::nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use nfs3_client::Nfs3ConnectionBuilder;
use nfs3_client::tokio::TokioConnector;
use nfs_rs::{Mount, OPEN_BOTH, OPEN_READ};

type Done = Result<(), Box<dyn Error>>;

const SIZES: [usize; 5] = [0, 1, 4095, 65_537, 3_000_001];

#[tokio::main]
async fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, share, directory] = arguments.as_slice() else {
        return Err("usage: nfs-clients HOST PORT SHARE DIR".into());
    };
    let directory = Path::new(directory);
    let mut failed = 0;
    let mut tell = |what: &str, done: Done| match done {
        Ok(()) => println!("  ok    {what}"),
        Err(error) => {
            failed += 1;
            println!("  FAIL  {what}: {error}");
        }
    };
    tell("nfs3_client, by the portmapper", plain(host, port.parse()?, share, directory).await);
    for version in ["3", "4.0", "4.1", "4.2"] {
        let url = format!("nfs://{host}/{share}?version={version}&nfsport={port}&mountport={port}&uid=0&gid=0");
        match nfs_rs::parse_url_and_mount(&url).await {
            Err(error) => tell(&format!("nfs-rs {version}: mount"), Err(error.into())),
            Ok(mount) => {
                let mount = &*mount;
                tell(&format!("nfs-rs {version}: contents"), contents(mount, directory).await);
                tell(&format!("nfs-rs {version}: names"), names(mount, directory).await);
                tell(&format!("nfs-rs {version}: what only it has"), special(mount, version, directory).await);
                tell(&format!("nfs-rs {version}: unmount"), mount.umount().await.map_err(Into::into));
            }
        }
    }
    if failed > 0 { Err(format!("{failed} failed").into()) } else { Ok(()) }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

fn must(what: bool, why: &str) -> Done {
    if what { Ok(()) } else { Err(why.into()) }
}

/// The crate `nfs3_client`: every procedure a simple program needs.
async fn plain(host: &str, port: u16, share: &str, directory: &Path) -> Done {
    let who = auth_unix { stamp: 1, machinename: Opaque::borrowed(b"client"), uid: 0, gid: 0, gids: vec![] };
    let builder = Nfs3ConnectionBuilder::new(TokioConnector, host, format!("/{share}")).portmapper_port(port);
    let mut client = builder.credential(opaque_auth::auth_unix(&who)).mount().await?;
    let root = client.root_nfs_fh3();
    let at = |name: &'static str| nfs3::diropargs3 { dir: root.clone(), name: name.as_bytes().into() };
    let how = nfs3::createhow3::GUARDED(nfs3::sattr3 { mode: Nfs3Option::Some(0o644), ..Default::default() });
    let made = match client.create(&nfs3::CREATE3args { where_: at("plain"), how }).await? {
        Nfs3Result::Ok(made) => made,
        Nfs3Result::Err((status, _)) => return Err(format!("CREATE: {status}").into()),
    };
    let Nfs3Option::Some(file) = made.obj else { return Err("CREATE tells no handle".into()) };
    let data = pattern(50_000);
    let written = client
        .write(&nfs3::WRITE3args {
            file: file.clone(),
            offset: 0,
            count: data.len() as u32,
            stable: nfs3::stable_how::FILE_SYNC,
            data: Opaque::borrowed(&data),
        })
        .await?;
    must(matches!(written, Nfs3Result::Ok(ok) if ok.count as usize == data.len()), "WRITE")?;
    must(std::fs::read(directory.join("plain"))? == data, "what is on disk is something else")?;
    match client.read(&nfs3::READ3args { file, offset: 1, count: 60_000 }).await? {
        Nfs3Result::Ok(read) => must(read.eof && data.get(1..) == Some(read.data.as_ref()), "READ")?,
        Nfs3Result::Err((status, _)) => return Err(format!("READ: {status}").into()),
    }
    let listed = client
        .readdir(&nfs3::READDIR3args { dir: root.clone(), cookie: 0, cookieverf: Default::default(), count: 1 << 20 })
        .await?;
    match listed {
        Nfs3Result::Ok(ok) => {
            let entries = ok.reply.entries.0;
            must(entries.iter().any(|entry| entry.name.0.as_ref() == b"plain"), "READDIR does not list it")?;
        }
        Nfs3Result::Err((status, _)) => return Err(format!("READDIR: {status}").into()),
    }
    let removed = client.remove(&nfs3::REMOVE3args { object: at("plain") }).await?;
    must(matches!(removed, Nfs3Result::Ok(_)), "REMOVE")?;
    must(!directory.join("plain").exists(), "it is still there")?;
    client.unmount().await?;
    Ok(())
}

/// Files go in and come out the same.
async fn contents(mount: &dyn Mount, directory: &Path) -> Done {
    for len in SIZES {
        let data = pattern(len);
        let made = mount.create_path("in.bin", Some(0o644)).await?;
        nfs_rs::write_all(mount, made.fh.clone(), 0, Bytes::from(data.clone())).await?;
        mount.close(made.fh).await?;
        must(std::fs::read(directory.join("in.bin"))? == data, "what is on disk is something else")?;
        let opened = mount.open_path("in.bin", OPEN_READ).await?;
        let mut got = Vec::new();
        while got.len() < len {
            let wanted = ((len - got.len()) as u32).min(mount.get_max_read_size());
            let part = mount.read(opened.fh.clone(), got.len() as u64, wanted).await?;
            must(!part.is_empty(), "a read ends early")?;
            got.extend_from_slice(&part);
        }
        mount.close(opened.fh).await?;
        must(got == data, "what is read is something else")?;
        mount.remove_path("in.bin").await?;
    }
    Ok(())
}

/// A tree is made, listed, renamed and removed.
async fn names(mount: &dyn Mount, directory: &Path) -> Done {
    mount.mkdir_path("tree", 0o755).await?;
    let mut expected = BTreeSet::new();
    for n in 0..300 {
        let name = format!("a file of number {n}");
        let made = mount.create_path(&format!("tree/{name}"), Some(0o644)).await?;
        mount.close(made.fh).await?;
        expected.insert(name);
    }
    let listed: Vec<_> = mount.readdirplus_path("tree").await?.try_collect().await?;
    let listed: BTreeSet<_> =
        listed.into_iter().map(|entry| entry.file_name).filter(|name| name != "." && name != "..").collect();
    must(listed == expected, "the listing is another one")?;
    mount.symlink_path("elsewhere", "tree/link").await?;
    must(mount.readlink_path("tree/link").await? == "elsewhere", "READLINK")?;
    mount.rename_path("tree", "moved").await?;
    must(directory.join("moved/a file of number 7").exists(), "it was not moved")?;
    must(mount.rmdir_path("moved").await.is_err(), "a directory that is not empty was removed")?;
    for name in expected.iter().map(String::as_str).chain(["link"]) {
        mount.remove_path(&format!("moved/{name}")).await?;
    }
    mount.rmdir_path("moved").await?;
    must(!directory.join("moved").exists(), "it is still there")
}

/// POSIX lists beside version 3, locks in version 4, ranges and attributes in 4.2.
async fn special(mount: &dyn Mount, version: &str, directory: &Path) -> Done {
    let made = mount.create_path("special", Some(0o640)).await?;
    nfs_rs::write_all(mount, made.fh.clone(), 0, Bytes::from(pattern(1 << 16))).await?;
    mount.close(made.fh).await?;
    if version == "3" {
        let acl = mount.get_posix_acl_path("special").await?;
        must(acl.access.len() >= 3, "an empty list")?;
        mount.set_posix_acl_path("special", &acl).await?;
        must(mount.get_posix_acl_path("special").await? == acl, "the list is another one")?;
    } else {
        let opened = mount.open_path("special", OPEN_BOTH).await?;
        let token = mount.lock_stateful(opened.fh.clone(), 2, 0, 10).await?;
        mount.unlock_stateful(token).await?;
        if version == "4.2" {
            mount.setxattr(opened.fh.clone(), "user.note", Bytes::from_static(b"text")).await?;
            must(mount.getxattr(opened.fh.clone(), "user.note").await? == "text", "the attribute is another one")?;
            mount.deallocate(opened.fh.clone(), 4096, 4096).await?;
            let disk = std::fs::read(directory.join("special"))?;
            must(disk.get(4096..8192) == Some(&[0; 4096][..]), "no hole was made")?;
        }
        mount.close(opened.fh).await?;
    }
    mount.remove_path("special").await?;
    Ok(())
}
