//! What a request asked for beyond what it gets.

use crate::model::{Caller, ExecutionRequest, LimitsPatch};

use super::{Executor, limits_for};

impl Executor {
    /// A sentence for each limit of a request that is more than what both keys' ceilings allow. Costs
    /// nothing where the request has no limits.
    pub fn cut(&self, caller: &Caller, request: &ExecutionRequest) -> Vec<String> {
        if request.limits == LimitsPatch::default() {
            return Vec::new();
        }
        let Ok(skill) = self.registry.resolve(caller, &request.skill) else { return Vec::new() };
        let granted = limits_for(caller, request, &skill.skill);
        let by = "the ceilings of the calling and of the registering key allow";
        granted.map(|granted| request.limits.cut_to(&granted, by)).unwrap_or_default()
    }
}
