//! Interceptors of the embedding program.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{InterceptorName, OwnerId, SkillName};

use super::chain::{Entry, Way};
use super::contract::{After, Asked, Before, Interceptor, Outcome};

/// An interceptor of the embedding program, and where it stands.
#[derive(Clone)]
pub struct NativeInterceptor {
    /// What records call it.
    pub name: InterceptorName,
    /// Around whose runs it stands; everybody's if nothing is said.
    pub owner: Option<OwnerId>,
    /// Its place: lower ones come first, and those of an owner before those for everybody.
    pub order: i32,
    /// Whether it is asked on a thread that may wait, and for at most `timeout`. One that is not must answer at
    /// once: many runs wait for the thread that it is asked on.
    pub waits: bool,
    /// How long it may take, if it waits.
    pub timeout: Duration,
    /// Whether a run goes on without it if it fails.
    pub optional: bool,
    /// The only skills that it is asked about, by name; none means all.
    pub skills: Option<Vec<SkillName>>,
    interceptor: Arc<dyn Interceptor>,
}

impl NativeInterceptor {
    /// One that stands around all runs, is asked on a thread that may wait, for 10 s at most, and without which no
    /// run goes on.
    pub fn new(name: InterceptorName, interceptor: impl Interceptor) -> Self {
        Self {
            name,
            owner: None,
            order: 0,
            waits: true,
            timeout: Duration::from_secs(10),
            optional: false,
            skills: None,
            interceptor: Arc::new(interceptor),
        }
    }

    pub(super) fn into_entry(self) -> Arc<Entry> {
        let Self { name, owner, order, waits, timeout, optional, skills, interceptor } = self;
        let phases = interceptor.phases().to_vec();
        let global = owner.is_none();
        let owner = owner.unwrap_or_else(OwnerId::system);
        let way = if waits { Way::Waiting(interceptor) } else { Way::Inline(interceptor) };
        Arc::new(Entry { name, owner, global, order, timeout, optional, skills, phases, way })
    }
}

impl std::fmt::Debug for NativeInterceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NativeInterceptor").field(&self.name).finish()
    }
}

/// Stands where one should that cannot be read: less protection than was asked for is none.
struct Broken;

impl Interceptor for Broken {
    fn before(&self, _: &mut Asked<'_>) -> Before {
        Before::Fail
    }

    fn after(&self, _: &mut Outcome<'_>) -> After {
        After::Fail
    }
}

pub(super) fn broken(owner: OwnerId, name: InterceptorName) -> Arc<Entry> {
    let owner_of = (!owner.is_system()).then_some(owner);
    let native = NativeInterceptor { owner: owner_of, waits: false, ..NativeInterceptor::new(name, Broken) };
    native.into_entry()
}
