//! The tasks of a job, as the client that starts it lays them out. Absent here: starting and leading them ([`crate::lead`]).

use std::fmt;
use std::rc::Rc;

use pinfold_topo::CpuSet;

/// What one task starts with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskStart {
    /// The PUs that it is bound to; `None`: all of the job's.
    pub cpus: Option<CpuSet>,
    /// Its own variables, over those of the job.
    pub variables: Vec<(String, String)>,
}

/// How the tasks of a job lie on the PUs that the job has: a function of these, called again when they change. It
/// gives as many tasks each time, or says in words why there is no such layout.
#[derive(Clone)]
pub struct TaskPlan(Rc<PlanFn>);

type PlanFn = dyn Fn(&CpuSet) -> Result<Vec<TaskStart>, String>;

impl TaskPlan {
    /// A plan by this function.
    pub fn new(plan: impl Fn(&CpuSet) -> Result<Vec<TaskStart>, String> + 'static) -> Self {
        Self(Rc::new(plan))
    }

    /// The tasks on these PUs.
    pub(crate) fn starts(&self, cpus: &CpuSet) -> Result<Vec<TaskStart>, String> {
        (self.0)(cpus)
    }
}

impl fmt::Debug for TaskPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskPlan")
    }
}
