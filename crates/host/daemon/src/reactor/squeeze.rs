//! `pinfold squeeze JOB`: a little of a running job's memory is taken away on request.
//!
//! The pages go as those of suspended jobs do, by the pager's thread, and no bound is left behind: whoever asks may die at
//! any moment. Owns nothing; how often a user may ask is kept with the pager. Absent: how far it goes, which the client
//! decides.

use pinfold_policy::JobId;
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_sys::container::Container;
use pinfold_sys::mode::{AbilityName, Via};
use pinfold_sys::peer::Peer;

use crate::clients::audit::Concern;
use crate::clients::rights;
use crate::core::{Refusal, denied, in_full};
use crate::meters::memory::Asked;
use crate::reactor::Daemon;

/// At most this part of what a job holds goes at a time: one in so many,
const STEP_PART: u64 = 100;
/// and so many bytes more, so that small jobs have steps as well.
const STEP_MORE: u64 = 64 << 10;

impl Daemon {
    /// Takes up to `bytes` away; tells what the job held before that.
    pub(super) fn squeeze(&mut self, user: Peer, job: JobId, bytes: u64) -> Result<Reply, Refusal> {
        let refused = |text: String| Err((ErrorCode::Refused, text));
        let Some(live) = self.jobs.table.get(&job) else { return Err(self.no_such_job(user, job)) };
        if !rights::may_touch(&self.ctx.configured.config, user, &live.row) {
            return Err(denied(&format!("job {job} belongs to another user")));
        }
        let (owner, frozen) = (live.row.uid, live.row.frozen_since_us.is_some());
        let Some(container) = live.container.as_deref().filter(|_| live.row.main.is_some()) else {
            return refused(format!("job {job} has not started: it holds no memory yet"));
        };
        let by_groups = matches!(self.ctx.containers.plan().via(AbilityName::PageOut), Via::V1 | Via::V2);
        let found = if by_groups { Container::squeezed(container) } else { Ok(None) };
        let found = found.map_err(|error| (ErrorCode::Failed, format!("job {job}: {}", in_full(&error))))?;
        let Some(found) = found else {
            let text = "memory is taken from a job by its control group, and this daemon has none; `pinfold doctor` \
                        says what would change that (page_out)";
            return refused(text.to_owned());
        };
        let most = found.ram_bytes / STEP_PART + STEP_MORE;
        if bytes > most {
            let text = format!(
                "{bytes} bytes are more than one in {STEP_PART} of what job {job} holds: {most} at most"
            );
            return Err((ErrorCode::Usage, text));
        }
        if bytes > 0 && frozen {
            return refused(format!("job {job} is suspended: what it misses cannot be seen"));
        }
        if bytes > 0 {
            match self.meters.memory.squeeze(user.uid, (job, owner), bytes, self.ctx.clock.now_us()) {
                Asked::TooSoon => {
                    return refused("a user may take memory from a job once a second; ask again".to_owned());
                }
                Asked::Again => {}
                Asked::First => {
                    let own = owner == user.uid;
                    let concern = if own { Concern::Own } else { Concern::Others };
                    self.note(user, concern, "squeeze", &format!("job {job}"));
                }
            }
        }
        Ok(Reply::Squeezed {
            frozen,
            ram_bytes: found.ram_bytes,
            swap_bytes: found.swap_bytes,
            stalled_us: found.stalled_us,
            returned_pages: found.returned_pages,
        })
    }
}
