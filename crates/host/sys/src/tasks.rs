//! The tasks of a job, as the client that starts it lays them out. Absent here: starting and leading them ([`crate::lead`]).

use std::fmt;
use std::rc::Rc;

use pinfold_topo::CpuSet;

/// The PUs and variables of a task at its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskStart {
    /// The PUs that it is bound to; `None`: all of the job's.
    pub cpus: Option<CpuSet>,
    /// Its own variables, over the job's.
    pub variables: Vec<(String, String)>,
}

/// The layout of a job's tasks on the job's PUs: a function of these PUs, called again when they change. It returns the
/// same number of tasks each time, or the reason for which the layout is impossible.
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
