//! Whether other threads want the processor on which this one polls. All waits of hosts, hosted devices and ranks
//! rest here between two polls, once about a microsecond has brought nothing; a bare-metal image has its processor.
//!
//! The system tells no thread that it keeps another from running, perhaps the one that it waits for. So a thread
//! tries: it yields, and asks the kernel how often another one took its processor.
//!
//! ```text
//!                 another thread took it                    it came back late
//! Alone ---------------------------------> Shared ---------------------------------> Beside
//! pauses; yields once in a while          yields each time: the others poll, too      one computes: waits sleep
//!   ^                                            |                                     at once for a while
//!   +---------- GROUP times without a taker -----+
//! ```
//!
//! A thread that yields to one that computes has its processor back after that one's time slice; one that sleeps and
//! is notified, at once.

#![expect(unsafe_code)]
// UNSAFETY: a count that the system writes into a struct.

use std::cell::Cell;
use std::time::Instant;

/// Rests with a pause between two tries of a thread that is alone: about a millisecond.
const TRY_EVERY: u32 = 4096;
/// And before the first.
const FIRST: u32 = 256;
/// Times that a thread yields between two looks at the kernel's count.
const GROUP: u32 = 16;
/// A processor that comes back later than this, in microseconds, had a thread that computes: a time slice is longer, and the turns of
/// several threads that only poll are shorter.
const LATE_US: u64 = 700;
/// Waits sleep at once for so many times of what came back late, so that further tries cost little.
const SLEEPS: u64 = 64;
const LONGEST_US: u64 = 1_000_000;
/// Waits on a shared processor sleep after so many microseconds, about what a sleep and its end cost: each of many that
/// poll there is in the others' way.
const SHARED_US: u64 = 20;

std::thread_local! {
    static HERE: Cell<Patience> = const { Cell::new(Patience::new()) };
}

/// Rests between two polls behind the first microsecond of a wait: a pause, or the processor is yielded.
#[inline]
pub fn rest() {
    HERE.with(|here| {
        let mut patience = here.get();
        patience.rest(&mut Kernel);
        here.set(patience);
    });
}

/// Does a thread that computes want the processor? Then a wait that can sleep does so at once.
#[inline]
pub fn must_sleep() -> bool {
    HERE.with(Cell::get).must_sleep(&mut Kernel)
}

/// For how many of so many microseconds a wait that can sleep rests before it does.
#[inline]
pub fn limit(spin_us: u64) -> u64 {
    HERE.with(Cell::get).limit(spin_us, &mut Kernel)
}

/// Does the processor belong to others as well? Then a rest is a turn of theirs, and no pause.
#[inline]
pub fn is_shared() -> bool {
    HERE.with(Cell::get).is_shared
}

/// What a thread asks of its system.
trait System {
    /// Microseconds from some moment on.
    fn micros(&mut self) -> u64;
    fn yield_now(&mut self);
    /// How often another thread has taken the processor from this one, which did not wait.
    fn switches(&mut self) -> u64;
}

struct Kernel;

impl System for Kernel {
    fn micros(&mut self) -> u64 {
        std::thread_local!(static BEGIN: Instant = Instant::now());
        BEGIN.with(Instant::elapsed).as_micros() as u64
    }

    fn yield_now(&mut self) {
        std::thread::yield_now();
    }

    fn switches(&mut self) -> u64 {
        let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a struct of the system's own layout, which the call writes and does not keep.
        let code = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: it is of numbers only, for which zeros, too, are values.
        let usage = unsafe { usage.assume_init() };
        if code == 0 { usage.ru_nivcsw as u64 } else { 0 }
    }
}

/// What a thread knows of its processor (see the module).
#[derive(Clone, Copy)]
struct Patience {
    /// Rests with a pause before it yields.
    pauses: u32,
    /// Times that it yields before it looks at the count.
    group: u32,
    is_shared: bool,
    /// The count at the last look.
    switches: u64,
    /// Until when waits sleep at once; 0: they do not.
    until: u64,
}

impl Patience {
    const fn new() -> Self {
        Self { pauses: FIRST, group: 1, is_shared: false, switches: 0, until: 0 }
    }

    #[inline]
    fn rest(&mut self, system: &mut impl System) {
        match self.pauses.checked_sub(1) {
            Some(left) => {
                self.pauses = left;
                core::hint::spin_loop();
            }
            None => self.yield_now(system),
        }
    }

    #[cold]
    #[inline(never)]
    fn yield_now(&mut self, system: &mut impl System) {
        let begin = system.micros();
        system.yield_now();
        let now = system.micros();
        let took = now.saturating_sub(begin);
        if took >= LATE_US {
            self.until = now + (took * SLEEPS).min(LONGEST_US);
            // Beside one that computes each yield comes back late. If that one only polled for longer, it takes this
            // one's next turn as early, and tells the two apart: each would hold the other off for good.
            (self.is_shared, self.pauses, self.group, self.switches) = (false, FIRST, 1, system.switches());
            return;
        }
        self.group -= 1;
        if self.group == 0 {
            let switches = system.switches();
            self.is_shared = core::mem::replace(&mut self.switches, switches) != switches;
            (self.pauses, self.group) = if self.is_shared { (0, GROUP) } else { (TRY_EVERY, 1) };
        }
    }

    #[inline]
    fn must_sleep(self, system: &mut impl System) -> bool {
        self.until != 0 && system.micros() < self.until
    }

    #[inline]
    fn limit(self, spin_us: u64, system: &mut impl System) -> u64 {
        match self {
            _ if self.must_sleep(system) => 0,
            _ if self.is_shared => spin_us.min(SHARED_US),
            _ => spin_us,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex, MutexGuard};

    /// A system in which a yield takes so many microseconds, and another thread takes the processor or not.
    struct Fake {
        takes: bool,
        us: u64,
        now: u64,
        given: u64,
        switches: u64,
        looks: u64,
    }

    impl Fake {
        fn new(takes: bool, us: u64) -> Self {
            Self { takes, us, now: 7, given: 0, switches: 0, looks: 0 }
        }

        fn rests(&mut self, patience: &mut Patience, rests: u64) -> u64 {
            let before = self.given;
            (0..rests).for_each(|_| patience.rest(self));
            self.given - before
        }
    }

    impl System for Fake {
        fn micros(&mut self) -> u64 {
            self.now
        }
        fn yield_now(&mut self) {
            self.given += 1;
            self.now += self.us;
            self.switches += u64::from(self.takes);
        }
        fn switches(&mut self) -> u64 {
            self.looks += 1;
            self.switches
        }
    }

    #[test]
    fn a_thread_that_is_alone_yields_once_in_a_while() {
        let (mut system, mut patience) = (Fake::new(false, 0), Patience::new());
        let rests = u64::from(TRY_EVERY) * 10;
        assert_eq!(system.rests(&mut patience, rests), 10);
        assert!(!patience.is_shared && !patience.must_sleep(&mut system));
        assert_eq!(patience.limit(300, &mut system), 300);
    }

    #[test]
    fn a_thread_that_shares_yields_at_each_rest_and_looks_once_a_group() {
        let (mut system, mut patience) = (Fake::new(true, 2), Patience::new());
        system.rests(&mut patience, FIRST.into());
        assert_eq!(system.rests(&mut patience, 1600), 1600);
        assert_eq!(system.looks, 1 + 1599 / u64::from(GROUP));
        assert!(patience.is_shared && !patience.must_sleep(&mut system), "the others poll as well");
        assert_eq!([300, 7].map(|spin| patience.limit(spin, &mut system)), [SHARED_US, 7]);
    }

    #[test]
    fn a_thread_finds_out_that_it_shares_and_that_it_is_alone_again() {
        let (mut system, mut patience) = (Fake::new(false, 1), Patience::new());
        for takes in [false, true, false, true] {
            system.takes = takes;
            let rests = u64::from(TRY_EVERY + 2 * GROUP);
            system.rests(&mut patience, rests);
            assert_eq!(patience.is_shared, takes);
        }
    }

    #[test]
    fn waits_sleep_beside_a_thread_that_computes_and_try_again_later() {
        let (mut system, mut patience) = (Fake::new(true, LATE_US - 1), Patience::new());
        system.rests(&mut patience, u64::from(FIRST) + 10);
        assert!(patience.is_shared && !patience.must_sleep(&mut system));
        system.us = 3000;
        system.rests(&mut patience, 1);
        assert!(patience.must_sleep(&mut system) && patience.limit(300, &mut system) == 0);
        assert_eq!(system.rests(&mut patience, 100), 0, "the next one would come back late as well");
        system.now += 3000 * SLEEPS - 1;
        assert!(patience.must_sleep(&mut system));
        system.now += 1;
        assert!(!patience.must_sleep(&mut system));
        // However late it came, for a second at most.
        system.us = u64::MAX / SLEEPS / 2;
        assert_eq!(system.rests(&mut patience, u64::from(FIRST)), 1);
        system.now += LONGEST_US;
        assert!(!patience.must_sleep(&mut system));
    }

    #[test]
    fn a_thread_that_takes_the_processor_once_for_long_does_not_share_it() {
        let (mut system, mut patience) = (Fake::new(true, LATE_US), Patience::new());
        system.rests(&mut patience, u64::from(FIRST) + 1);
        (system.takes, system.us) = (false, 1);
        assert_eq!(system.rests(&mut patience, u64::from(TRY_EVERY)), 1);
        assert!(!patience.is_shared, "what came late is no sign of one that polls");
    }

    /// Two threads on one processor: one runs, until it yields or ends.
    #[derive(Default)]
    struct Processor {
        state: Mutex<Running>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct Running {
        who: usize,
        nanos: u64,
        has_ended: bool,
    }

    impl Processor {
        fn now(&self) -> MutexGuard<'_, Running> {
            self.state.lock().expect("no panic")
        }

        /// The other one runs, until this one does again.
        fn switch(&self, mut state: MutexGuard<Running>, me: usize) {
            state.who = 1 - me;
            self.changed.notify_all();
            drop(self.changed.wait_while(state, |state| state.who != me && !state.has_ended).expect("no panic"));
        }
    }

    struct Turn<'a> {
        processor: &'a Processor,
        me: usize,
        switches: u64,
    }

    impl System for Turn<'_> {
        fn micros(&mut self) -> u64 {
            self.processor.now().nanos / 1000
        }
        fn yield_now(&mut self) {
            let state = self.processor.now();
            if !state.has_ended {
                self.switches += 1;
                self.processor.switch(state, self.me);
            }
        }
        fn switches(&mut self) -> u64 {
            self.switches
        }
    }

    /// So many rests of a thread that pauses for so many of them first: whether it knew that it shares as one ended.
    fn shares(processor: &Processor, me: usize, pauses: u32, rest: u64) -> bool {
        let (mut turn, mut patience) = (Turn { processor, me, switches: 0 }, Patience { pauses, ..Patience::new() });
        drop(processor.changed.wait_while(processor.now(), |state| state.who != me).expect("no panic"));
        for _ in 0..TRY_EVERY + 4 * FIRST {
            let mut state = processor.now();
            if state.has_ended {
                break;
            }
            state.nanos += rest;
            drop(state);
            patience.rest(&mut turn);
        }
        processor.now().has_ended = true;
        processor.changed.notify_all();
        patience.is_shared
    }

    #[test]
    fn two_that_poll_know_each_other_however_long_one_has_polled_alone() {
        // Of these nanoseconds are a poll and a pause: 4,096 of them take less, or more, than what counts as late.
        for (rest, pauses) in
            [20, 70, 300].into_iter().flat_map(|rest| [[FIRST, TRY_EVERY], [TRY_EVERY; 2]].map(|p| (rest, p)))
        {
            let processor = &Processor::default();
            let know = std::thread::scope(|scope| {
                let threads = [0, 1].map(|me| scope.spawn(move || shares(processor, me, pauses[me], rest)));
                threads.map(|thread| thread.join().expect("no panic"))
            });
            assert_eq!(know, [true; 2], "{rest} ns, {pauses:?}");
        }
    }

    /// A system that counts nothing: as good as alone.
    #[test]
    fn a_thread_whose_switches_are_not_counted_pauses() {
        let (mut system, mut patience) = (Fake::new(false, 3), Patience::new());
        assert_eq!(system.rests(&mut patience, 4000), 1);
    }

    #[test]
    fn the_kernel_counts_how_often_another_thread_takes_the_processor() {
        let before = Kernel.switches();
        let micros = Kernel.micros();
        assert!(before <= Kernel.switches() && micros <= Kernel.micros());
    }
}
