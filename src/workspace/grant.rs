//! How far a run may go in its owner's workspace, and who says so.

use crate::model::{Access, Layer};

/// Most bytes and most files and directories of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all files, by their lengths: a hole counts as what it stands for.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// What each of those who have a say allows. The least of it holds.
#[derive(Clone, Copy, Debug)]
pub struct WorkspaceGrant {
    /// What the manifest asks for.
    pub manifest: Access,
    /// The ceiling of the key that registered the skill, as it was then.
    pub registrar: Access,
    /// The least of the ceilings of the skills that called this one, each as that of its registering
    /// key was.
    pub above: Access,
    /// The ceiling of the calling key.
    pub caller: Access,
    /// What the request leaves of it.
    pub request: Access,
    /// What the owner may leave lying.
    pub quota: Quota,
}

impl Default for WorkspaceGrant {
    fn default() -> Self {
        let none = Access::None;
        let quota = Quota { bytes: 0, files: 0 };
        Self { manifest: none, registrar: none, above: none, caller: none, request: none, quota }
    }
}

impl WorkspaceGrant {
    /// What holds.
    pub fn access(&self) -> Access {
        self.manifest.min(self.registrar).min(self.above).min(self.caller).min(self.request)
    }

    /// The first whose word is less than `wanted`.
    pub fn denier(&self, wanted: Access) -> Option<Layer> {
        [
            (Layer::Manifest, self.manifest),
            (Layer::Registrar, self.registrar),
            (Layer::Parent, self.above),
            (Layer::Caller, self.caller),
            (Layer::Request, self.request),
        ]
        .into_iter()
        .find_map(|(layer, access)| (access < wanted).then_some(layer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_what_is_allowed_holds_and_the_first_who_allows_less_is_named() {
        let all = WorkspaceGrant {
            manifest: Access::Write,
            registrar: Access::Write,
            above: Access::Write,
            caller: Access::Write,
            request: Access::Write,
            quota: Quota { bytes: 1, files: 1 },
        };
        assert_eq!((all.access(), all.denier(Access::Write)), (Access::Write, None));
        let read = WorkspaceGrant { caller: Access::Read, request: Access::Read, ..all };
        assert_eq!((read.access(), read.denier(Access::Write)), (Access::Read, Some(Layer::Caller)));
        assert_eq!(read.denier(Access::Read), None);
        let above = WorkspaceGrant { above: Access::None, ..read };
        assert_eq!((above.access(), above.denier(Access::Read)), (Access::None, Some(Layer::Parent)));
        assert_eq!(WorkspaceGrant::default().denier(Access::Read), Some(Layer::Manifest));
    }
}
