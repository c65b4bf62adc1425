//! The fake hierarchies, and how `/proc` shows them.

use std::path::PathBuf;

use pinfold_sys::cgroup::Generation;

/// One fake hierarchy.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    pub(super) generation: Generation,
    pub(crate) point: PathBuf,
    pub(super) controllers: Vec<&'static str>,
}

impl Hierarchy {
    pub(crate) fn v1(point: PathBuf, controller: &'static str) -> Self {
        Self { generation: Generation::V1, point, controllers: vec![controller] }
    }

    pub(crate) fn v2(point: PathBuf, controllers: &[&'static str]) -> Self {
        Self { generation: Generation::V2, point, controllers: controllers.to_vec() }
    }

    pub(crate) fn mount_line(&self, index: usize, point: &str) -> String {
        let number = 30 + index;
        match self.generation {
            Generation::V1 => {
                format!(
                    "{number} 1 0:{number} / {point} rw - cgroup cgroup rw,{}\n",
                    self.controllers.join(",")
                )
            }
            Generation::V2 => format!("{number} 1 0:{number} / {point} rw - cgroup2 cgroup2 rw\n"),
        }
    }

    pub(crate) fn own_line(&self, index: usize) -> String {
        match self.generation {
            Generation::V1 => format!("{}:{}:/\n", index + 1, self.controllers.join(",")),
            Generation::V2 => "0::/\n".to_owned(),
        }
    }
}
