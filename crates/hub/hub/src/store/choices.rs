//! Names that a filter offers. A viewer with a part of the jobs gets the names of the viewer's own grants alone.

use super::db::values;
use super::{Access, DAY_US, Store, StoreError, whole};

/// The most names of a kind.
const CHOICES_MAX: u32 = 500;

/// Days of jobs that give names.
const CHOICES_DAYS: u64 = 30;

/// Names that a filter offers, each list by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choices {
    /// Hosts.
    pub hosts: Vec<String>,
    /// Users.
    pub users: Vec<String>,
    /// Projects.
    pub projects: Vec<String>,
    /// Classes.
    pub names: Vec<String>,
}

impl Store {
    /// The names that a filter offers to this viewer.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn choices(&self, access: &Access, now_us: u64) -> Result<Choices, StoreError> {
        let since = whole(now_us / DAY_US) - whole(CHOICES_DAYS);
        self.read("list names", |connection| {
            let mut all = |find: &str, bound: i64| {
                connection.all(find, &values![bound, CHOICES_MAX], |row| row.get::<String>(0))
            };
            let hosts = all("SELECT name FROM hosts WHERE id > ?1 ORDER BY name LIMIT ?2", 0)?;
            if let Access::Some(grants) = access {
                let users = grants.iter().filter_map(|grant| grant.user.clone()).collect();
                let projects = grants.iter().filter_map(|grant| grant.project.clone()).collect();
                return Ok(Choices { hosts, users, projects, names: Vec::new() });
            }
            let mut of = |column: &str| {
                let find = "FROM days WHERE host = 0 AND day >= ?1";
                all(&format!("SELECT DISTINCT {column} {find} AND {column} <> '' ORDER BY 1 LIMIT ?2"), since)
            };
            Ok(Choices { users: of("\"user\"")?, projects: of("project")?, names: of("name")?, hosts })
        })
    }
}
