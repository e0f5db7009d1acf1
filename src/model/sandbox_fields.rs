//! OmniRoute's five sandbox fields, in our words.

use super::{Asked, Code, Error, FieldError, LimitsPatch};

/// The sandbox of OmniRoute's manifests and requests (API.md, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxFields {
    /// `limits.cpuPercent`.
    pub cpu_limit: Option<u64>,
    /// `limits.memoryMb`.
    pub memory_limit: Option<u64>,
    /// `limits.timeoutMs`.
    pub timeout: Option<u64>,
    /// True is the network grant `public`, false is none.
    pub network_enabled: Option<bool>,
    /// True is a workspace that is at most read, false is one that is written.
    pub read_only: Option<bool>,
}

impl SandboxFields {
    /// The limits, together with those under our own names.
    ///
    /// # Errors
    ///
    /// `code` at each field that says something else than its other name.
    pub fn limits(self, mut limits: LimitsPatch, code: Code) -> Result<LimitsPatch, Error> {
        let pairs = [
            ("/cpuLimit", "cpuPercent", self.cpu_limit, &mut limits.cpu_percent),
            ("/memoryLimit", "memoryMb", self.memory_limit, &mut limits.memory_mb),
            ("/timeout", "timeoutMs", self.timeout, &mut limits.timeout_ms),
        ];
        let mut fields = Vec::new();
        for (pointer, name, asked, limit) in pairs {
            let Some(value) = asked else { continue };
            match *limit {
                _ if value == 0 => fields.push(FieldError::new(pointer, "must be larger than 0")),
                Some(other) if other != value => {
                    let detail = format!("says {value}, and limits.{name}, which is the same, says {other}");
                    fields.push(FieldError::new(pointer, detail));
                }
                _ => *limit = Some(value),
            }
        }
        match fields.first() {
            None => Ok(limits),
            Some(first) => Err(Error::fields(code, first.detail.clone(), fields)),
        }
    }

    /// The fields that ask for something whose effect is not there yet.
    pub fn without_effect(self) -> [Asked; 2] {
        [("/networkEnabled", self.network_enabled == Some(true)), ("/readOnly", self.read_only == Some(false))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_the_same_under_both_names() {
        let fields =
            SandboxFields { cpu_limit: Some(100), memory_limit: Some(64), timeout: Some(5), ..Default::default() };
        let limits = fields.limits(LimitsPatch { timeout_ms: Some(5), ..LimitsPatch::default() }, Code::Malformed);
        let wanted =
            LimitsPatch { cpu_percent: Some(100), memory_mb: Some(64), timeout_ms: Some(5), ..LimitsPatch::default() };
        assert_eq!(limits.unwrap(), wanted);
    }

    #[test]
    fn two_names_must_not_say_two_things() {
        let fields = SandboxFields { memory_limit: Some(64), timeout: Some(0), ..Default::default() };
        let ours = LimitsPatch { memory_mb: Some(65), ..LimitsPatch::default() };
        let error = fields.limits(ours, Code::InvalidManifest).unwrap_err();
        let places: Vec<_> = error.fields.iter().map(|field| field.pointer.as_str()).collect();
        assert_eq!((error.code, places), (Code::InvalidManifest, vec!["/memoryLimit", "/timeout"]));
    }
}
