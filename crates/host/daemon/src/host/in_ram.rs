//! Staying in RAM: what decides which job to freeze must not itself wait for the disk that memory is being moved to.

/// Locks this process's pages in RAM where the kernel lets it; a child by fork has to ask for itself.
pub(crate) fn stay() {
    if !pinfold_sys::own::stay_in_ram() {
        tracing::debug!("the kernel may move this process's memory to swap");
    }
}
