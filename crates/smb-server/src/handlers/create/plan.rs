//! What a CREATE asks for, checked as far as it can be without looking at the object (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1).

use coherence::ShareKinds;
use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, FileAttributes};
use smb_wire::name::{StreamKind, parse_path, parse_posix_path};
use smb_wire::security::SecurityDescriptor;
use smb_wire::smb2::{ALLOCATION_TAG, CreateOptions, CreateRequest, Disposition, EA_TAG, SECURITY_TAG, TIMEWARP_TAG};
use vfs::{Capabilities, NameError, Path};

use crate::Share;
use crate::acl;
use crate::ea::{self, Ea};
use crate::posix;
use crate::stream;
use crate::tree::Tree;

/// Bits of CreateOptions that no client may set.
const INVALID_OPTIONS: u32 = 0xff00_0000;
/// Bits of CreateOptions for what is not served: opening by id, opfilters, and one that is reserved.
const UNSUPPORTED_OPTIONS: u32 = 0x0010_2080;
/// Attributes a client may name in a CREATE (MS-FSCC 2.6); `INTEGRITY_STREAM` and above are Windows' own.
const VALID_ATTRIBUTES: u32 = 0x0000_7fb7;
/// Rights that exist.
const VALID_ACCESS: u32 = 0xf31f_01ff;

/// A CREATE that makes sense.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where, as the client spells it.
    pub path: Path,
    /// The attribute of the stream that is meant, if it is not the file itself.
    pub stream: Option<String>,
    /// Rights wanted, generic ones mapped; without MAXIMUM_ALLOWED.
    pub desired: AccessMask,
    /// Whatever else the user may is wanted as well.
    pub maximum_allowed: bool,
    /// The maximal access is asked for in the answer.
    pub tell_maximal: bool,
    /// What others may do meanwhile.
    pub share: ShareKinds,
    /// Find or make.
    pub disposition: Disposition,
    /// How.
    pub options: CreateOptions,
    /// Attributes for a new or overwritten file.
    pub attributes: FileAttributes,
    /// Space to set aside.
    pub allocation_bytes: Option<u64>,
    /// The descriptor of a new object (`SecD`).
    pub security: Option<SecurityDescriptor>,
    /// Extended attributes of a new object (`ExtA`).
    pub eas: Vec<Ea>,
    /// With POSIX semantics: names are what they are, and a new object gets the mode.
    pub posix: Option<posix::Asked>,
    /// When it was asked, as FILETIME.
    pub now: u64,
}

impl Plan {
    /// Checks `asked`, in the order in which a client can tell. `posix`: the extensions were negotiated.
    pub fn check(
        share: &Share,
        tree: &Tree,
        asked: &CreateRequest<'_>,
        posix: bool,
        now: u64,
    ) -> Result<Self, NtStatus> {
        if asked.impersonation > 3 {
            return Err(NtStatus::BAD_IMPERSONATION_LEVEL);
        }
        let disposition = check_fields(asked)?;
        let mut options = asked.options;
        let posix = posix::Asked::of(asked, posix)?;
        let Target { path, stream, wants_directory, wants_file } = match posix {
            Some(_) => Target::parse_posix(share, asked.name)?,
            None => Target::parse(share, asked.name)?,
        };
        if (wants_file || stream.is_some()) && options.contains(CreateOptions::DIRECTORY_FILE) {
            return Err(NtStatus::NOT_A_DIRECTORY);
        }
        options.set(CreateOptions::DIRECTORY_FILE, wants_directory || options.contains(CreateOptions::DIRECTORY_FILE));
        options
            .set(CreateOptions::NON_DIRECTORY_FILE, wants_file || options.contains(CreateOptions::NON_DIRECTORY_FILE));
        check_options(options, disposition)?;
        if asked.contexts.get(TIMEWARP_TAG).is_some() {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND); // there are no snapshots
        }
        let wanted = AccessMask::from_bits_retain(asked.desired_access);
        let desired = wanted.map_generic() - AccessMask::MAXIMUM_ALLOWED;
        let plan = Self {
            path,
            stream,
            desired,
            maximum_allowed: wanted.contains(AccessMask::MAXIMUM_ALLOWED),
            tell_maximal: asked.contexts.get(smb_wire::smb2::MAXIMAL_ACCESS_TAG).is_some(),
            share: ShareKinds::from_bits_truncate(asked.share_access as u8),
            disposition,
            options,
            attributes: FileAttributes::from_bits_retain(asked.file_attributes),
            allocation_bytes: allocation(asked)?,
            security: security(asked)?,
            eas: eas(asked)?,
            posix,
            now,
        };
        plan.check_rights(tree)?;
        Ok(plan)
    }

    /// Whether an existing file is to be cut.
    pub fn overwrites(&self) -> bool {
        matches!(self.disposition, Disposition::Supersede | Disposition::Overwrite | Disposition::OverwriteIf)
    }

    /// Whether the object may be made.
    pub fn may_make(&self) -> bool {
        !matches!(self.disposition, Disposition::Open | Disposition::Overwrite)
    }

    /// Whether a directory is wanted.
    pub fn is_directory(&self) -> bool {
        self.options.contains(CreateOptions::DIRECTORY_FILE)
    }

    fn check_rights(&self, tree: &Tree) -> Result<(), NtStatus> {
        // The right has to be asked for by name: MAXIMUM_ALLOWED does not do, as with Windows and Samba.
        if self.options.contains(CreateOptions::DELETE_ON_CLOSE) && !self.desired.contains(AccessMask::DELETE) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if tree.maximal_access.is_empty() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        // Seeing and changing the SACL needs a privilege.
        if self.desired.contains(AccessMask::ACCESS_SYSTEM_SECURITY) && !acl::is_admin(&tree.cred) {
            return Err(NtStatus::PRIVILEGE_NOT_HELD);
        }
        if !tree.maximal_access.contains(self.desired - AccessMask::ACCESS_SYSTEM_SECURITY) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if !tree.writable && (self.overwrites() || self.disposition == Disposition::Create) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        Ok(())
    }
}

fn check_fields(asked: &CreateRequest<'_>) -> Result<Disposition, NtStatus> {
    if asked.desired_access == 0 || asked.desired_access & !VALID_ACCESS != 0 {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if asked.file_attributes & !VALID_ATTRIBUTES != 0 || asked.share_access & !7 != 0 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    // Nothing is encrypted here (MS-FSA 2.1.5.1.1).
    if asked.file_attributes & FileAttributes::ENCRYPTED.bits() != 0 {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let disposition = Disposition::from_u32(asked.disposition).ok_or(NtStatus::INVALID_PARAMETER)?;
    if asked.options.bits() & INVALID_OPTIONS != 0 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if asked.options.bits() & UNSUPPORTED_OPTIONS != 0 {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    Ok(disposition)
}

fn check_options(options: CreateOptions, disposition: Disposition) -> Result<(), NtStatus> {
    if !options.contains(CreateOptions::DIRECTORY_FILE) {
        return Ok(());
    }
    let overwrites = matches!(disposition, Disposition::Supersede | Disposition::Overwrite | Disposition::OverwriteIf);
    if options.contains(CreateOptions::NON_DIRECTORY_FILE) || overwrites {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(())
}

/// What a name means.
struct Target {
    path: Path,
    stream: Option<String>,
    /// Its spelling asks for a directory, or for a file.
    wants_directory: bool,
    wants_file: bool,
}

impl Target {
    /// With POSIX semantics there are no streams.
    fn parse_posix(share: &Share, name: &[u8]) -> Result<Self, NtStatus> {
        let path = to_path(share, &parse_posix_path(name)?)?;
        Ok(Self { path, stream: None, wants_directory: false, wants_file: false })
    }

    fn parse(share: &Share, name: &[u8]) -> Result<Self, NtStatus> {
        let wire = parse_path(name)?;
        let (mut wants_directory, mut wants_file, mut stream) = (wire.trailing_separator, false, None);
        match &wire.stream {
            Some(named) if !named.name.is_empty() && named.kind == StreamKind::Data => {
                // FileFsAttributeInformation says whether there are any.
                if !share.backend.capabilities().contains(Capabilities::XATTR) {
                    return Err(NtStatus::OBJECT_NAME_INVALID);
                }
                stream = Some(stream::key(&named.name)?);
            }
            Some(unnamed) if unnamed.kind == StreamKind::Data => wants_file = true,
            Some(_) => wants_directory = true,
            None => {}
        }
        Ok(Self { path: to_path(share, &wire.path)?, stream, wants_directory, wants_file })
    }
}

/// The backend's path, unless the share hides part of it.
pub fn to_path(share: &Share, local: &[u8]) -> Result<Path, NtStatus> {
    let path = Path::new(local).map_err(|error| match error {
        NameError::TooLong => NtStatus::OBJECT_NAME_INVALID,
        NameError::Dots => NtStatus::OBJECT_PATH_SYNTAX_BAD,
        NameError::Empty | NameError::Forbidden => NtStatus::OBJECT_NAME_INVALID,
    })?;
    let vetoed = |name: vfs::Name<'_>| share.options.veto.matches_local(name.as_bytes());
    if path.last().is_some_and(vetoed) {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    if path.components().any(vetoed) {
        return Err(NtStatus::OBJECT_PATH_NOT_FOUND);
    }
    Ok(path)
}

/// `SecD` (MS-SMB2 2.2.13.2.2).
fn security(asked: &CreateRequest<'_>) -> Result<Option<SecurityDescriptor>, NtStatus> {
    let decode = |data| SecurityDescriptor::decode(data).map_err(|_| NtStatus::INVALID_SECURITY_DESCR);
    let descriptor = asked.contexts.get(SECURITY_TAG).map(decode).transpose()?;
    if descriptor.as_ref().is_some_and(|d| !d.fits()) {
        return Err(NtStatus::INVALID_ACL);
    }
    Ok(descriptor)
}

/// `ExtA` (MS-SMB2 2.2.13.2.1).
fn eas(asked: &CreateRequest<'_>) -> Result<Vec<Ea>, NtStatus> {
    if asked.contexts.get(EA_TAG).is_some() && asked.options.contains(CreateOptions::NO_EA_KNOWLEDGE) {
        return Err(NtStatus::ACCESS_DENIED); // MS-FSA 2.1.5.1
    }
    asked.contexts.get(EA_TAG).map_or(Ok(Vec::new()), ea::decode)
}

fn allocation(asked: &CreateRequest<'_>) -> Result<Option<u64>, NtStatus> {
    match asked.contexts.get(ALLOCATION_TAG) {
        None => Ok(None),
        Some(data) => match <[u8; 8]>::try_from(data) {
            Ok(bytes) if u64::from_le_bytes(bytes) <= i64::MAX as u64 => Ok(Some(u64::from_le_bytes(bytes))),
            _ => Err(NtStatus::INVALID_PARAMETER),
        },
    }
}
