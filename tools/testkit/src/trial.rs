//! Test programs that find out as they run whether a test can run here: a test without its prerequisites is *ignored*, with
//! the reason, and does not count as passed. The library's own test runner cannot do that.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed};

/// Why a test cannot run here.
struct Ignored(String);

thread_local! {
    static IGNORED: Cell<bool> = const { Cell::new(false) };
}

/// Ends the test of this thread as ignored.
pub fn ignore(why: String) -> ! {
    IGNORED.set(true);
    std::panic::resume_unwind(Box::new(Ignored(why)))
}

/// Whether this thread unwinds because its test failed.
pub fn fails() -> bool {
    std::thread::panicking() && !IGNORED.get()
}

/// Runs the tests that the command line asks for, as the library's runner does, `--shuffle` and `RUST_TEST_THREADS` included.
#[must_use]
pub fn run<F: FnOnce() + Send + 'static>(tests: impl IntoIterator<Item = (String, F)>) -> ExitCode {
    let mut tests: Vec<(String, F)> = tests.into_iter().collect();
    tests.sort_by(|one, other| one.0.cmp(&other.0));
    if std::env::args().any(|word| word == "--shuffle") {
        let order = RandomState::new();
        tests.sort_by_key(|(name, _)| order.hash_one(name));
    }
    let mut arguments = Arguments::from_iter(std::env::args().filter(|word| word != "--shuffle"));
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|count| count.parse().ok());
    arguments.test_threads = arguments.test_threads.or(threads);
    let trial = |(name, test): (String, F)| {
        libtest_mimic::Trial::ignorable_test(name.clone(), move || outcome(name, test))
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

/// A thread of the test's name runs it, so that a panic names the test.
fn outcome(name: String, test: impl FnOnce() + Send + 'static) -> Result<Completion, Failed> {
    let thread = std::thread::Builder::new().name(name).spawn(test).map_err(|error| error.to_string())?;
    match thread.join().map_err(|payload| payload.downcast::<Ignored>()) {
        Ok(()) => Ok(Completion::Completed),
        Err(Ok(ignored)) => Ok(Completion::ignored_with(ignored.0)),
        // The panic's message is on standard error already.
        Err(Err(_)) => Err(Failed::without_message()),
    }
}

/// `ignore!("no setpriv here")`: ends the test as ignored, for this reason.
#[macro_export]
macro_rules! ignore {
    ($($why:tt)+) => { $crate::trial::ignore(format!($($why)+)) };
}

/// `trials! { first, second }`: the main function of a test program with these functions as tests.
#[macro_export]
macro_rules! trials {
    ($($test:ident),+ $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::trial::run([$((stringify!($test).to_owned(), $test as fn())),+])
        }
    };
}
