//! QUERY_INFO (MS-SMB2 3.3.5.20): what a file, or the file system it is on, says of itself.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::fscc::{
    AccessInfo, AccessMask, AlignmentInfo, AllInfo, AttributeFsInfo, AttributeTagInfo, BasicInfo, CompressionInfo,
    ControlFsInfo, DeviceFsInfo, EaInfo, FileInfoClass, FileMode, FsAttributes, FsInfoClass, FullSizeFsInfo, IdInfo,
    InternalInfo, ModeInfo, NameInfo, NetworkOpenInfo, ObjectIdFsInfo, PipeInfo, PipeLocalInfo, PositionInfo,
    SectorSizeFsInfo, SizeFsInfo, StandardInfo, StandardLinkInfo, StreamEntry, StreamListWriter, VolumeFsInfo,
    get_ea_names,
};
use smb_wire::name::{local_to_wire, path_to_wire, utf16le};
use smb_wire::smb2::{InfoType, QueryInfoRequest, put_output_buffer};
use vfs::{Capabilities, FsStat, VfsResult};

use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::meta::{Meta, wire_time};
use crate::open::{FileOpen, Object, Open};
use crate::reply::ReplyWriter;
use crate::stream;

const SECTOR_BYTES: u32 = 512;
/// CreateOptions that FileModeInformation shows (MS-FSCC 2.4.31).
const MODE_BITS: u32 = 0x103e;

/// QUERY_INFO.
pub(crate) async fn query_info(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let message = request.message.clone();
    let asked = QueryInfoRequest::decode(&message)?;
    let max = request.conn.negotiated().map_or(0, |n| n.max_transact_bytes);
    if asked.output_bytes > max || asked.input.len() > max as usize {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    request.check_charge((asked.output_bytes as usize).max(asked.input.len()))?;
    let open = request.open(asked.handle)?;
    let info_type = InfoType::from_u8(asked.info_type).ok_or(NtStatus::INVALID_PARAMETER)?;
    let answer = match (info_type, &open.object) {
        (InfoType::File, Object::Pipe(pipe)) => pipe_info(FileInfoClass(asked.class), &open, pipe)?,
        (InfoType::File, Object::File(file)) if FileInfoClass(asked.class) == FileInfoClass::FULL_EA => {
            return eas(&open, file, asked.input, asked.output_bytes, out);
        }
        (InfoType::File, _) if FileInfoClass(asked.class) == FileInfoClass::NORMALIZED_NAME && !normalizes(request) => {
            return Err(NtStatus::NOT_SUPPORTED.into());
        }
        (InfoType::File, Object::File(file)) => file_info(FileInfoClass(asked.class), &open, file, asked.output_bytes)?,
        (InfoType::FileSystem, Object::File(file)) => {
            let stat = fs_stat(request, file).await?;
            fs_info(FsInfoClass(asked.class), file, &stat, asked.output_bytes)?
        }
        (InfoType::Security, Object::File(file)) => {
            return super::security::query(&open, file, asked.additional, asked.output_bytes, out);
        }
        _ => return Err(NtStatus::NOT_SUPPORTED.into()),
    };
    let room = asked.output_bytes as usize;
    let status = if answer.len() > room { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
    let bytes = answer.get(..room).unwrap_or(&answer);
    put_output_buffer(bytes.len() as u32, out);
    out.put_bytes(bytes);
    Ok(status)
}

/// Normalized names came with 3.1.1 (MS-SMB2 3.3.5.20.1).
fn normalizes(request: &Request<'_>) -> bool {
    request.conn.negotiated().is_some_and(|n| n.dialect == smb_wire::smb2::Dialect::V3_1_1)
}

/// FileFullEaInformation (MS-FSA 2.1.5.12.10): all of them, or those the request names.
fn eas(open: &Open, file: &FileOpen, input: &[u8], room: u32, out: &mut ReplyWriter) -> Outcome {
    if (room as usize) < FileInfoClass::FULL_EA.query_min_len().unwrap_or(0) {
        return Err(NtStatus::INFO_LENGTH_MISMATCH.into());
    }
    open.require_any(AccessMask::FILE_READ_EA)?;
    let wanted = if input.is_empty() { Ok(Vec::new()) } else { get_ea_names(input).collect::<Result<Vec<_>, _>>() };
    let wanted = wanted.map_err(|_| NtStatus::EA_LIST_INCONSISTENT)?;
    let (list, status) = crate::ea::list(&*file.node, &wanted, room as usize)?;
    put_output_buffer(list.len() as u32, out);
    out.put_bytes(&list);
    Ok(status)
}

/// Classes that need a right on the handle (MS-FSA 2.1.5.12).
fn needed_right(class: FileInfoClass) -> AccessMask {
    match class {
        FileInfoClass::BASIC
        | FileInfoClass::ALL
        | FileInfoClass::NETWORK_OPEN
        | FileInfoClass::ATTRIBUTE_TAG
        | FileInfoClass::POSIX => AccessMask::FILE_READ_ATTRIBUTES,
        FileInfoClass::FULL_EA => AccessMask::FILE_READ_EA,
        _ => AccessMask::empty(),
    }
}

fn file_info(class: FileInfoClass, open: &Open, file: &FileOpen, room: u32) -> Result<Vec<u8>, Failure> {
    let min = class.query_min_len().ok_or(NtStatus::INVALID_INFO_CLASS)?;
    if (room as usize) < min {
        return Err(NtStatus::INFO_LENGTH_MISMATCH.into());
    }
    let right = needed_right(class);
    if !right.is_empty() {
        open.require_any(right)?;
    }
    let view = View { open, file, meta: Meta::of(&*file.node, file.is_hidden())?.on(&file.share) };
    let mut out = Vec::with_capacity(128);
    match class {
        FileInfoClass::BASIC => view.basic().encode(&mut out),
        FileInfoClass::STANDARD => view.standard().encode(&mut out),
        FileInfoClass::INTERNAL => view.internal().encode(&mut out),
        FileInfoClass::EA => EaInfo { ea_bytes: crate::ea::size_bytes(&*file.node)? }.encode(&mut out),
        FileInfoClass::ACCESS => view.access().encode(&mut out),
        FileInfoClass::POSITION => view.position().encode(&mut out),
        FileInfoClass::MODE => view.mode().encode(&mut out),
        FileInfoClass::ALIGNMENT => AlignmentInfo { alignment: 0 }.encode(&mut out),
        FileInfoClass::ALL => view.all(&mut out)?,
        FileInfoClass::NAME | FileInfoClass::NORMALIZED_NAME => view.name(class, &mut out)?,
        FileInfoClass::STREAM => view.streams(&mut out)?,
        FileInfoClass::COMPRESSION => view.compression().encode(&mut out),
        FileInfoClass::NETWORK_OPEN => view.network_open().encode(&mut out),
        FileInfoClass::ATTRIBUTE_TAG => view.attribute_tag().encode(&mut out),
        FileInfoClass::STANDARD_LINK => view.standard_link().encode(&mut out),
        FileInfoClass::ID => view.id().encode(&mut out),
        FileInfoClass::POSIX if file.posix => crate::posix::info(&view.meta).encode(&mut out),
        FileInfoClass::POSIX => return Err(NtStatus::INVALID_INFO_CLASS.into()),
        FileInfoClass::ALTERNATE_NAME => NameInfo { name: &short_name(file)? }.encode(&mut out),
        FileInfoClass::PIPE | FileInfoClass::PIPE_LOCAL => return Err(NtStatus::INVALID_PARAMETER.into()),
        _ => return Err(NtStatus::NOT_SUPPORTED.into()),
    }
    Ok(out)
}

fn short_name(file: &FileOpen) -> Result<Vec<u8>, NtStatus> {
    let name = file.name.lock();
    file.share.short_name(&name).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)
}

/// An open as the information classes show it.
struct View<'a> {
    open: &'a Open,
    file: &'a FileOpen,
    meta: Meta,
}

impl View<'_> {
    fn basic(&self) -> BasicInfo {
        let times = self.meta.dir_times();
        BasicInfo {
            created: times.created,
            accessed: times.accessed,
            written: times.written,
            changed: times.changed,
            attributes: self.meta.attributes,
        }
    }

    /// How many names it has: a directory one, whatever POSIX counts.
    fn links(&self) -> u32 {
        if self.meta.is_directory() { 1 } else { self.meta.attr.nlink.max(1) }
    }

    fn standard(&self) -> StandardInfo {
        let delete_pending = self.file.claim.delete_pending();
        StandardInfo {
            allocation_bytes: self.meta.allocation_bytes(),
            end_of_file: self.meta.end_of_file(),
            links: self.links() - u32::from(delete_pending && self.meta.attr.nlink > 0),
            delete_pending: delete_pending || self.file.posix_delete.load(Relaxed),
            directory: self.meta.is_directory(),
        }
    }

    fn internal(&self) -> InternalInfo {
        InternalInfo { file_id: self.meta.attr.id.ino }
    }

    fn access(&self) -> AccessInfo {
        AccessInfo { access: self.open.granted }
    }

    fn position(&self) -> PositionInfo {
        PositionInfo { offset: self.file.position.load(Relaxed) }
    }

    fn mode(&self) -> ModeInfo {
        let opened = FileMode::from_bits_retain(self.file.options.bits() & MODE_BITS);
        ModeInfo { mode: opened | FileMode::from_bits_retain(self.file.mode.load(Relaxed) as u32) }
    }

    /// The path from the share's root, backslashes between; class 9 begins with one.
    fn wire_path(&self, leading: bool) -> VfsResult<Vec<u8>> {
        let path = self.file.path()?;
        let mut wire = if leading { vec![b'\\', 0] } else { Vec::new() };
        path_to_wire(path.as_bytes(), &mut wire);
        if let Some(stream) = &self.file.stream {
            wire.extend(stream_wire_name(&stream.node.key()));
        }
        Ok(wire)
    }

    fn name(&self, class: FileInfoClass, out: &mut Vec<u8>) -> VfsResult<()> {
        let name = self.wire_path(class == FileInfoClass::NAME)?;
        NameInfo { name: &name }.encode(out);
        Ok(())
    }

    fn all(&self, out: &mut Vec<u8>) -> VfsResult<()> {
        let name = self.wire_path(true)?;
        AllInfo {
            basic: self.basic(),
            standard: self.standard(),
            internal: self.internal(),
            ea: EaInfo { ea_bytes: crate::ea::size_bytes(&*self.file.node)? },
            access: self.access(),
            position: self.position(),
            mode: self.mode(),
            alignment: AlignmentInfo { alignment: 0 },
            name: NameInfo { name: &name },
        }
        .encode(out);
        Ok(())
    }

    /// A file has the stream without a name, which is its data; a directory only named ones.
    fn streams(&self, out: &mut Vec<u8>) -> VfsResult<()> {
        let base = self.file.base();
        let mut list = StreamListWriter::new(out, usize::MAX);
        if base.kind() != vfs::FileKind::Directory {
            let attr = base.attr()?;
            list.push(&StreamEntry {
                len_bytes: attr.len_bytes,
                allocation_bytes: attr.allocated_bytes,
                name: &utf16le("::$DATA"),
            });
        }
        for key in stream::keys(&**base)? {
            // One that went meanwhile is not listed.
            let Ok(len_bytes) = stream::len_bytes(&**base, &key) else { continue };
            list.push(&StreamEntry {
                len_bytes,
                allocation_bytes: len_bytes.next_multiple_of(512),
                name: &[stream_wire_name(&key), utf16le(":$DATA")].concat(),
            });
        }
        Ok(())
    }

    fn compression(&self) -> CompressionInfo {
        CompressionInfo {
            compressed_bytes: self.meta.end_of_file(),
            format: 0,
            unit_shift: 0,
            chunk_shift: 0,
            cluster_shift: 0,
        }
    }

    fn network_open(&self) -> NetworkOpenInfo {
        let times = self.meta.dir_times();
        NetworkOpenInfo {
            created: times.created,
            accessed: times.accessed,
            written: times.written,
            changed: times.changed,
            allocation_bytes: self.meta.allocation_bytes(),
            end_of_file: self.meta.end_of_file(),
            attributes: self.meta.attributes,
        }
    }

    fn attribute_tag(&self) -> AttributeTagInfo {
        AttributeTagInfo { attributes: self.meta.attributes, reparse_tag: self.meta.reparse_tag() }
    }

    fn standard_link(&self) -> StandardLinkInfo {
        let standard = self.standard();
        StandardLinkInfo {
            accessible_links: standard.links,
            total_links: self.links(),
            delete_pending: standard.delete_pending,
            directory: standard.directory,
        }
    }

    fn id(&self) -> IdInfo {
        IdInfo { volume_serial: u64::from(self.file.share.volume_serial), file_id: u128::from(self.meta.attr.id.ino) }
    }
}

/// `:name` of the stream kept in an attribute. More can be in it than in a file's name (MS-FSCC 2.1.5.3), so that only
/// what would end it is shown in another way.
fn stream_wire_name(key: &str) -> Vec<u8> {
    let mut name = utf16le(":");
    for char in stream::name_of(key).unwrap_or_default().chars() {
        let bytes = &mut [0; 4];
        match char {
            ':' | '\\' => local_to_wire(char.encode_utf8(bytes).as_bytes(), &mut name),
            char => name.extend(utf16le(char.encode_utf8(bytes))),
        }
    }
    name
}

fn pipe_info(
    class: FileInfoClass,
    open: &Open,
    pipe: &parking_lot::Mutex<smb_wire::dcerpc::RpcPipe>,
) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    match class {
        FileInfoClass::STANDARD => {
            StandardInfo { allocation_bytes: 4096, end_of_file: 0, links: 1, delete_pending: false, directory: false }
                .encode(&mut out)
        }
        FileInfoClass::PIPE => PipeInfo { read_mode: 1, completion_mode: 0 }.encode(&mut out),
        FileInfoClass::PIPE_LOCAL => PipeLocalInfo {
            pipe_type: 1,
            configuration: 2,
            max_instances: u32::MAX,
            instances: 1,
            inbound_quota: 4096,
            read_available: pipe.lock().available().0 as u32,
            outbound_quota: 4096,
            write_available: 4096,
            state: 3,
            end: 0,
        }
        .encode(&mut out),
        FileInfoClass::ACCESS => AccessInfo { access: open.granted }.encode(&mut out),
        _ => return Err(NtStatus::INVALID_PARAMETER.into()),
    }
    Ok(out)
}

/// The file system as who opened the file sees it. Quotas are asked on a worker.
async fn fs_stat(request: &Request<'_>, file: &FileOpen) -> Result<FsStat, Failure> {
    let backend = Arc::clone(&file.share.backend);
    if !backend.capabilities().contains(Capabilities::QUOTA) {
        return Ok(backend.fs_stat()?);
    }
    let cred = file.cred.clone();
    let asked = request.conn.offload(move || backend.fs_stat_for(&cred)).await;
    Ok(asked.ok_or(NtStatus::INTERNAL_ERROR)??)
}

fn fs_info(class: FsInfoClass, file: &FileOpen, stat: &FsStat, room: u32) -> Result<Vec<u8>, Failure> {
    let min = class.query_min_len().ok_or(NtStatus::INVALID_INFO_CLASS)?;
    if (room as usize) < min {
        return Err(NtStatus::INFO_LENGTH_MISMATCH.into());
    }
    let backend = &file.share.backend;
    let mut out = Vec::with_capacity(64);
    match class {
        FsInfoClass::VOLUME => {
            let root = backend.root().attr()?;
            VolumeFsInfo {
                created: wire_time(root.created.unwrap_or(root.changed)),
                serial: file.share.volume_serial,
                supports_objects: false,
                label: &utf16le(&file.share.name),
            }
            .encode(&mut out);
        }
        FsInfoClass::SIZE => {
            let units = Units::of(stat);
            SizeFsInfo {
                total_units: units.total,
                available_units: units.available,
                sectors_per_unit: units.sectors,
                bytes_per_sector: SECTOR_BYTES,
            }
            .encode(&mut out);
        }
        FsInfoClass::FULL_SIZE => {
            let units = Units::of(stat);
            FullSizeFsInfo {
                total_units: units.total,
                caller_available_units: units.available,
                available_units: units.free,
                sectors_per_unit: units.sectors,
                bytes_per_sector: SECTOR_BYTES,
            }
            .encode(&mut out);
        }
        // FILE_DEVICE_DISK, mounted (MS-FSCC 2.5.10).
        FsInfoClass::DEVICE => DeviceFsInfo { device_type: 7, characteristics: 0x20 }.encode(&mut out),
        FsInfoClass::ATTRIBUTE => AttributeFsInfo {
            attributes: fs_attributes(file),
            max_name_chars: stat.name_max.min(255),
            name: &utf16le("NTFS"),
        }
        .encode(&mut out),
        FsInfoClass::CONTROL => ControlFsInfo {
            free_space_start_filtering: 0,
            free_space_threshold: 0,
            free_space_stop_filtering: 0,
            default_quota_threshold: u64::MAX,
            default_quota_limit: u64::MAX,
            flags: 0,
        }
        .encode(&mut out),
        FsInfoClass::OBJECT_ID => {
            let mut object_id = [0; 16];
            object_id[..8].copy_from_slice(&stat.fs_id.to_le_bytes());
            object_id[8..12].copy_from_slice(&file.share.volume_serial.to_le_bytes());
            ObjectIdFsInfo { object_id, extended: [0; 48] }.encode(&mut out);
        }
        FsInfoClass::POSIX if file.posix => crate::posix::fs_info(stat).encode(&mut out),
        FsInfoClass::POSIX => return Err(NtStatus::INVALID_INFO_CLASS.into()),
        FsInfoClass::SECTOR_SIZE => SectorSizeFsInfo {
            logical_bytes: SECTOR_BYTES,
            physical_bytes_for_atomicity: SECTOR_BYTES,
            physical_bytes_for_performance: stat.block_bytes.max(SECTOR_BYTES),
            effective_bytes_for_atomicity: SECTOR_BYTES,
            flags: sector_flags(file),
            sector_alignment: 0,
            partition_alignment: 0,
        }
        .encode(&mut out),
        _ => return Err(NtStatus::NOT_SUPPORTED.into()),
    }
    Ok(out)
}

/// SSINFO_FLAGS (MS-FSCC 2.5.7): aligned, and trim does something where there are holes.
fn sector_flags(file: &FileOpen) -> u32 {
    let trims = file.share.backend.capabilities().contains(Capabilities::SPARSE);
    3 | if trims { 8 } else { 0 }
}

/// Sizes in allocation units of whole sectors.
struct Units {
    total: u64,
    free: u64,
    available: u64,
    sectors: u32,
}

impl Units {
    fn of(stat: &FsStat) -> Self {
        let unit = stat.block_bytes.max(SECTOR_BYTES);
        Self {
            total: stat.total_blocks,
            free: stat.free_blocks,
            available: stat.available_blocks,
            sectors: unit / SECTOR_BYTES,
        }
    }
}

fn fs_attributes(file: &FileOpen) -> FsAttributes {
    let can = file.share.backend.capabilities();
    let mut attributes =
        FsAttributes::CASE_PRESERVED_NAMES | FsAttributes::UNICODE_ON_DISK | FsAttributes::CASE_SENSITIVE_SEARCH;
    attributes.set(FsAttributes::SUPPORTS_SPARSE_FILES, can.contains(Capabilities::SPARSE));
    attributes.set(FsAttributes::SUPPORTS_BLOCK_REFCOUNTING, can.contains(Capabilities::REFLINK));
    attributes.set(FsAttributes::READ_ONLY_VOLUME, can.contains(Capabilities::READ_ONLY));
    let beside =
        FsAttributes::NAMED_STREAMS | FsAttributes::PERSISTENT_ACLS | FsAttributes::SUPPORTS_EXTENDED_ATTRIBUTES;
    attributes.set(beside, can.contains(Capabilities::XATTR));
    attributes
}
