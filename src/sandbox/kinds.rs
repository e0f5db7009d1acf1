//! The one place that picks where a skill runs, by how it is carried out.

use std::collections::HashSet;
use std::path::PathBuf;

use tokio::sync::oneshot;

use crate::model::{Code, Digest, Error, Function, Grants, Handler, Limits, LimitsPatch, Schemas};

use super::shape::Shape;
use super::{
    BoxFuture, ContainerSandbox, Inspection, PrepareRequest, Preparing, ReadyRun, SandboxCall, SandboxProvider,
    WasmSandbox,
};

/// The name of the only function of a command.
const FUNCTION: &str = "run";

/// Every kind of sandbox that this host has.
pub struct Sandboxes {
    wasm: WasmSandbox,
    containers: ContainerSandbox,
}

impl Sandboxes {
    /// Components run in the one, commands in images in the other.
    pub fn new(wasm: WasmSandbox, containers: ContainerSandbox) -> Self {
        Self { wasm, containers }
    }
}

/// What is told of a command: it has one function, and says nothing else of itself.
fn command() -> Inspection {
    let function = Function {
        name: FUNCTION.to_owned(),
        description: String::new(),
        schema: Schemas::default(),
        callable: true,
        reason: None,
    };
    Inspection { functions: vec![function], shape: Shape::Command(String::new()), ..Inspection::default() }
}

impl SandboxProvider for Sandboxes {
    fn settle<'a>(
        &'a self,
        handler: Handler,
        asked: (&'a Grants, &'a LimitsPatch),
    ) -> BoxFuture<'a, Result<Handler, Error>> {
        Box::pin(async move {
            match handler {
                Handler::Wasm { .. } => Ok(handler),
                Handler::Container { program, .. } => {
                    let asked = (asked.0, asked.1.memory_mb);
                    self.containers.settle((*program).clone(), asked).await.map(Handler::container)
                }
            }
        })
    }

    fn prepare(&self, request: PrepareRequest) -> Result<Preparing, Error> {
        let Handler::Container { program, .. } = &request.handler else { return self.wasm.prepare(request) };
        self.containers.know(request.digest, program);
        let (inspected, inspected_answer) = oneshot::channel();
        let (ready, ready_answer) = oneshot::channel();
        let _ = inspected.send(Ok(command()));
        let _ = ready.send(Ok(()));
        Ok(Preparing { inspected: inspected_answer, ready: ready_answer })
    }

    fn look<'a>(&'a self, handler: &'a Handler) -> Option<BoxFuture<'a, Result<(), Error>>> {
        match handler {
            Handler::Wasm { .. } => None,
            Handler::Container { digest, program } => Some(Box::pin(self.containers.look(*digest, program))),
        }
    }

    fn is_prepared(&self, digest: Digest) -> bool {
        self.containers.has(digest) || self.wasm.is_prepared(digest)
    }

    fn check(&self, digest: Digest) -> Result<(), Error> {
        if self.containers.has(digest) { Ok(()) } else { self.wasm.check(digest) }
    }

    fn fits(&self, digest: Digest, function: &str, args: (&str, &Limits)) -> Result<(), Error> {
        // A command takes whatever it is given.
        if self.containers.has(digest) { Ok(()) } else { self.wasm.fits(digest, function, args) }
    }

    fn ready(&self, call: SandboxCall) -> Result<Box<dyn ReadyRun>, Error> {
        if self.containers.has(call.digest) { self.containers.ready(call) } else { self.wasm.ready(call) }
    }

    fn wit(&self, digest: Digest, file: PathBuf) -> BoxFuture<'_, Result<String, Error>> {
        if self.containers.has(digest) {
            let none = Error::new(Code::NotFound, "a container skill has no WIT");
            return Box::pin(std::future::ready(Err(none)));
        }
        self.wasm.wit(digest, file)
    }

    fn forget(&self, digest: Digest) {
        self.containers.forget(digest);
        self.wasm.forget(digest);
    }

    fn forget_all_but(&self, digests: &HashSet<Digest>) -> Result<(), Error> {
        self.wasm.forget_all_but(digests)
    }
}
