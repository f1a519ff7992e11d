//! Lines between the client and a server in memory. What goes either way passes through the test, which may change it,
//! hold it back, or cut the line; a line that is dialled again leads to the server there is then.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use client::nfs::{Dial, Dialling, Receiver, Sender};
use nfs_server::Connection;
use nfs_wire::rpc::Call;
use nfs_wire::xdr::Reader;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use vfs::{Buf, Frame};

use crate::world::World;

/// Bytes the line holds before a sender must wait: a socket's buffer.
const LINE_BYTES: usize = 256 << 10;

/// A call or a reply on its way, the mark in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Call,
    Reply,
}

/// What becomes of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Pass,
    /// These bytes take its place.
    Change(Vec<u8>),
    /// The line is cut before it.
    CutBefore,
    /// The line is cut behind it (a call is done, its reply lost).
    CutBehind,
    /// It never comes.
    Drop,
}

type Meddle = Box<dyn FnMut(Way, &[u8]) -> Fate>;

/// The server's end.
#[derive(Clone)]
pub struct Line {
    world: Rc<RefCell<World>>,
    meddle: Rc<RefCell<Meddle>>,
    dialled: mpsc::UnboundedSender<(u16, oneshot::Sender<DuplexStream>)>,
    /// Records seen either way, and lines made.
    pub calls: Rc<RefCell<Vec<Vec<u8>>>>,
    pub lines: Rc<Cell<usize>>,
    /// Nobody answers on any port.
    pub is_down: Rc<Cell<bool>>,
    /// The port that answers.
    pub port: u16,
    pub round_trip: Rc<Cell<Duration>>,
}

impl Line {
    pub fn new(world: World) -> Self {
        let (dialled, mut inbox) = mpsc::unbounded_channel::<(u16, oneshot::Sender<DuplexStream>)>();
        let line = Self {
            world: Rc::new(RefCell::new(world)),
            meddle: Rc::new(RefCell::new(Box::new(|_, _| Fate::Pass))),
            dialled,
            calls: Rc::default(),
            lines: Rc::default(),
            is_down: Rc::default(),
            port: 2049,
            round_trip: Rc::default(),
        };
        let server = line.clone();
        tokio::task::spawn_local(async move {
            while let Some((port, reply)) = inbox.recv().await {
                if server.is_down.get() || port != server.port {
                    continue;
                }
                let (ours, theirs) = tokio::io::duplex(LINE_BYTES);
                server.lines.set(server.lines.get() + 1);
                tokio::task::spawn_local(serve(server.clone(), theirs));
                let _ = reply.send(ours);
            }
        });
        line
    }

    pub fn dial(&self) -> Arc<dyn Dial> {
        Arc::new(Dialler(self.dialled.clone()))
    }

    /// From now on `meddle` is shown every record.
    pub fn meddle(&self, meddle: impl FnMut(Way, &[u8]) -> Fate + 'static) {
        *self.meddle.borrow_mut() = Box::new(meddle);
    }

    pub fn honest(&self) {
        self.meddle(|_, _| Fate::Pass);
    }

    pub fn world(&self) -> std::cell::RefMut<'_, World> {
        self.world.borrow_mut()
    }

    fn fate(&self, way: Way, record: &[u8]) -> Fate {
        let mut meddle = self.meddle.borrow_mut();
        meddle(way, record)
    }
}

struct Dialler(mpsc::UnboundedSender<(u16, oneshot::Sender<DuplexStream>)>);

impl Dial for Dialler {
    fn dial(&self, port: u16) -> Dialling {
        let (reply, line) = oneshot::channel();
        let asked = self.0.send((port, reply));
        Box::pin(async move {
            let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            asked.map_err(|_| refused())?;
            let (reader, writer) = tokio::io::split(line.await.map_err(|_| refused())?);
            Ok((Box::new(reader) as Receiver, Box::new(writer) as Sender))
        })
    }
}

async fn serve(line: Line, stream: DuplexStream) {
    let mut server: Connection = line.world.borrow().connect().connection;
    let (mut reader, mut writer) = tokio::io::split(stream);
    while let Some(record) = next_record(&mut reader).await {
        line.calls.borrow_mut().push(record.clone());
        let fate = line.fate(Way::Call, &record);
        let record = match fate {
            Fate::CutBefore => return,
            Fate::Drop => continue,
            Fate::Change(ref other) => other.clone(),
            Fate::Pass | Fate::CutBehind => record,
        };
        if fate_of_call(&mut server, &record) == Fate::CutBefore {
            return;
        }
        tokio::time::sleep(line.round_trip.get()).await;
        while let Some(reply) = server.next_reply() {
            if fate == Fate::CutBehind {
                return;
            }
            let bytes = reply.head.to_vec();
            match line.fate(Way::Reply, &bytes) {
                Fate::CutBefore => return,
                Fate::Drop => continue,
                Fate::Change(other) => drop(writer.write_all(&other).await),
                Fate::Pass => drop(writer.write_all(&bytes).await),
                Fate::CutBehind => {
                    let _ = writer.write_all(&bytes).await;
                    return;
                }
            }
        }
    }
    server.closed("the client is gone");
}

fn fate_of_call(server: &mut Connection, record: &[u8]) -> Fate {
    if server.framing(record).is_err() {
        return Fate::CutBefore;
    }
    let mut buf = Buf::unpooled(record.len());
    buf.push(record);
    server.receive(Frame::from(buf), false);
    server.poll(&mut Context::from_waker(Waker::noop()));
    Fate::Pass
}

async fn next_record(reader: &mut (impl AsyncReadExt + Unpin)) -> Option<Vec<u8>> {
    let mut record = vec![0; 4];
    reader.read_exact(&mut record).await.ok()?;
    let len = u32::from_be_bytes(record[..4].try_into().unwrap()) & 0x7fff_ffff;
    record.resize(4 + len as usize, 0);
    reader.read_exact(&mut record[4..]).await.ok()?;
    Some(record)
}

/// The program, version and procedure of a call, and its arguments.
pub fn call_of(record: &[u8]) -> (u32, u32, u32, &[u8]) {
    let mut r = Reader::new(&record[4..]);
    let call = Call::decode(&mut r).unwrap();
    (call.program, call.version, call.procedure, r.rest())
}

/// The operations of a compound call; of another version's, none.
pub fn ops_of(record: &[u8]) -> Vec<nfs_wire::nfs4::OpNum> {
    use nfs_wire::nfs4::{Compound, NextOp};
    let (program, version, procedure, args) = call_of(record);
    if (program, version, procedure) != (100_003, 4, 1) {
        return Vec::new();
    }
    let mut compound = Compound::decode(&mut Reader::new(args)).unwrap();
    let next = || compound.next_op();
    std::iter::from_fn(next).filter_map(|op| if let NextOp::Op(op) = op { Some(op.number()) } else { None }).collect()
}
