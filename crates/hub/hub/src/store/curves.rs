//! The memory of single jobs over their time, for the usual band of a class.

use super::db::{Row, values};
use super::query::{Thinned, points};
use super::{JobQuery, Store, StoreError};

/// The most jobs of a class to read, and the most parts of each.
const CURVES: u32 = 10;
const CURVE_PARTS: u32 = 2;

impl Store {
    /// The memory of the last jobs of a query over the time since each start: seconds and bytes.
    ///
    /// # Errors
    /// When the database refuses, or it takes too long.
    pub fn curves(&self, query: &JobQuery) -> Result<Vec<Vec<(f64, f64)>>, StoreError> {
        let jobs = self.jobs(&JobQuery { limit: CURVES, ..query.clone() })?.jobs;
        let months = self.series_months()?;
        self.read("read series", |connection| {
            let mut curves = Vec::new();
            for id in jobs.iter().map(|job| job.id) {
                let find =
                    "SELECT month, parts, started_us FROM jobs WHERE id = ?1 AND started_us IS NOT NULL";
                let of = |row: &Row| Ok((row.get(0)?, row.get::<u32>(1)?, row.get::<u64>(2)?));
                let Some((month, parts, started_us)) = connection.first(find, &values![id], of)? else {
                    continue;
                };
                let thinned = Thinned { parts: parts.div_ceil(CURVE_PARTS).max(1), points: 1 };
                let start_s = pinfold_proto::view::seconds(started_us);
                let points = points(connection, id, (month, &months), thinned)?.0.unwrap_or_default();
                #[expect(clippy::cast_precision_loss, reason = "15 digits of a size are enough")]
                let curve = points.iter().map(|point| (point.time_s - start_s, point.memory_bytes as f64));
                curves.push(curve.collect());
            }
            Ok(curves)
        })
    }
}
