//! The engines: one that nearly everything runs on, and others for what asks for it.
//!
//! An engine takes address space, a thread and a linker, so the others are made when something
//! first runs on them. What all of them share: the guests' threads, the memory, the way out.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use wasmtime::Engine;

use crate::model::{Code, Digest, Error};
use crate::sandbox::Inspection;

use super::components::{Components, Loaded};
use super::engine::{self, Kind, Reset, Running};
use super::room::{self, Room};
use super::run::{Guests, Shared};
use super::ticker::Ticker;
use super::turns::Turns;
use super::{WasmSettings, bindings, preview1};

/// An engine, the code for it, and the guests on it.
pub(super) struct Tier {
    pub(super) components: Components,
    pub(super) guests: Guests,
}

/// All of them.
pub(super) struct Tiers {
    plain: Tier,
    others: [OnceLock<Tier>; Kind::OTHERS.len()],
    making: Mutex<()>,
    places: Arc<Places>,
    instances: u32,
    shared: Shared,
}

/// Where the code for each kind of engine lies: what one has made, no other loads.
pub(super) struct Places {
    cache: PathBuf,
    plain: String,
    others: [OnceLock<String>; Kind::OTHERS.len()],
}

impl Tiers {
    /// Makes the first one, and says how used instances are wiped.
    pub(super) fn start(settings: &WasmSettings) -> Result<(Self, Reset), Error> {
        let running = engine::engine(Kind::PLAIN, settings.instances.saturating_add(room::DEPTHS))?;
        let reset = running.reset;
        let shared = Shared::start(Arc::clone(&settings.egress), settings.reuse)?;
        let places =
            Places { cache: settings.cache.clone(), plain: compatibility(&running.engine), others: Default::default() };
        let directory = places.directory(Kind::PLAIN)?;
        let plain = Tier::new(Kind::PLAIN, (running, settings.instances), (directory, &shared))?;
        let places = Arc::new(places);
        let instances = settings.instances;
        Ok((Self { plain, others: Default::default(), making: Mutex::default(), places, instances, shared }, reset))
    }

    /// Where code lies.
    pub(super) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// The one that nearly everything runs on.
    pub(super) fn plain(&self) -> &Tier {
        &self.plain
    }

    fn get(&self, kind: Kind) -> Result<&Tier, Error> {
        let Some(at) = kind.other() else { return Ok(&self.plain) };
        if let Some(tier) = self.others[at].get() {
            return Ok(tier);
        }
        let _alone = self.making.lock();
        if let Some(tier) = self.others[at].get() {
            return Ok(tier);
        }
        let instances = kind.instances(self.instances);
        let running = engine::engine(kind, instances.saturating_add(room::DEPTHS))?;
        let tier = Tier::new(kind, (running, instances), (self.places.directory(kind)?, &self.shared))?;
        tracing::info!("Another engine was made, {kind}");
        Ok(self.others[at].get_or_init(|| tier))
    }

    /// The component as it runs metered, or not, and where it does.
    ///
    /// # Errors
    ///
    /// `compiling` if its code is not there, `invalid_component` if it does not fit this host.
    pub(super) fn find(&self, digest: Digest, unmetered: bool) -> Result<(&Tier, Arc<Loaded>), Error> {
        if !unmetered && let Some(loaded) = self.plain.components.loaded(digest) {
            return Ok((&self.plain, loaded));
        }
        let tier = self.with_code(digest, unmetered)?;
        let tier = tier.ok_or_else(|| Error::new(Code::Compiling, "the skill is being compiled; try again soon"))?;
        Ok((tier, tier.components.get(digest)?))
    }

    /// Whether the component's code is there, to run metered.
    pub(super) fn has_code(&self, digest: Digest) -> bool {
        self.with_code(digest, false).is_ok_and(|tier| tier.is_some())
    }

    /// What was found in the component, if it was compiled to run metered, or not.
    pub(super) fn inspection(&self, digest: Digest, unmetered: bool) -> Option<Inspection> {
        self.with_code(digest, unmetered).ok()??.components.inspection(digest)
    }

    fn with_code(&self, digest: Digest, unmetered: bool) -> Result<Option<&Tier>, Error> {
        for kind in Kind::of(unmetered) {
            if self.places.has_code(kind, digest)? {
                let tier = self.get(kind)?;
                if tier.components.has_code(digest) {
                    return Ok(Some(tier));
                }
            }
        }
        Ok(None)
    }

    /// Forgets a component and all its code.
    pub(super) fn forget(&self, digest: Digest) {
        for tier in std::iter::once(&self.plain).chain(self.others.iter().filter_map(OnceLock::get)) {
            tier.components.forget(digest);
            tier.guests.forget(digest);
        }
        self.places.forget(digest);
    }
}

impl Tier {
    fn new(
        kind: Kind,
        (running, instances): (Running, u32),
        (directory, shared): (PathBuf, &Shared),
    ) -> Result<Self, Error> {
        let Running { engine, memories, .. } = running;
        let linkers = (
            bindings::linker(&engine, kind).map_err(Error::internal)?,
            preview1::linker(&engine).map_err(Error::internal)?,
        );
        let ticker = Ticker::start(engine.weak())?;
        let turns = kind.concurrent.then(|| Turns::new(instances / 2));
        let guests = Guests::new(engine.clone(), ticker, (Room::new(instances, memories), turns), shared);
        Ok(Self { components: Components::open(engine, linkers, directory)?, guests })
    }
}

impl Places {
    /// A name for everything that the code of this kind depends on: version, settings, processor.
    pub(super) fn hash(&self, kind: Kind) -> Result<&str, Error> {
        let Some(at) = kind.other() else { return Ok(&self.plain) };
        if let Some(hash) = self.others[at].get() {
            return Ok(hash);
        }
        let engine = Engine::new(&engine::config(kind)).map_err(Error::internal)?;
        Ok(self.others[at].get_or_init(|| compatibility(&engine)))
    }

    /// Where the directory for it is, if there is one.
    pub(super) fn path(&self, kind: Kind) -> Result<PathBuf, Error> {
        Ok(self.cache.join(self.hash(kind)?))
    }

    /// The directory for it, which is there.
    pub(super) fn directory(&self, kind: Kind) -> Result<PathBuf, Error> {
        let directory = self.path(kind)?;
        crate::files::create_private_directory(&directory).map_err(Error::internal)?;
        Ok(directory)
    }

    fn has_code(&self, kind: Kind, digest: Digest) -> Result<bool, Error> {
        Ok(kind == Kind::PLAIN || self.path(kind)?.join(digest.hex()).with_extension("cwasm").exists())
    }

    /// Also of engines that were not made since the start.
    fn forget(&self, digest: Digest) {
        let directories = std::fs::read_dir(&self.cache).into_iter().flatten().flatten();
        for directory in directories {
            remove(&directory.path().join(digest.hex()));
        }
    }
}

fn remove(name: &Path) {
    for kind in ["cwasm", "json", "wit"] {
        let _ = std::fs::remove_file(name.with_extension(kind));
    }
}

/// A name for everything that compiled code depends on.
pub(super) fn compatibility(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
