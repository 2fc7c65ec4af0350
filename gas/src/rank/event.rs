//! Events: what tells that transfers are done.
//!
//! A transfer by a copy is done when its call returns. One over messages counts its pieces; the
//! counters are here.

use super::Rank;
use crate::GasError;

/// Counters: of puts and gets without an event, of the call that waits, then of events.
const COUNTERS: usize = 64;
pub(crate) const PUTS: u8 = 0;
pub(crate) const GETS: u8 = 1;
pub(crate) const BLOCKING: u8 = 2;
const FIRST: u8 = 3;

/// Something that will be done (`gex_Event_t`, `gasnet_handle_t`): the counters of its puts and its gets; 0 is none. It is
/// waited for once.
#[must_use = "the transfer may be under way; wait for it, or use the calls without events"]
#[derive(PartialEq, Eq, Debug)]
pub struct Event([u8; 2]);

impl Event {
    /// Nothing is under way (`GEX_EVENT_INVALID`).
    pub const DONE: Self = Self([0; 2]);
}

/// A part of an event (`gex_Event_QueryLeaf`), which is done no later than all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaf {
    /// What puts read here may change (`GEX_EC_LC`): at once, as the bytes of a put are copied when its call returns.
    Local,
    /// Its puts and fills are done (`GEX_EC_PUT`).
    Puts,
    /// Its gets are done (`GEX_EC_GET`).
    Gets,
}

/// Which transfers without events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Those into other segments.
    Puts,
    /// Those out of them.
    Gets,
    /// Both.
    All,
}

/// The pieces under way.
pub(crate) struct Events {
    left: [u32; COUNTERS],
    /// Bit i: an event has counter i.
    used: u64,
    /// Those of an access region, for puts and for gets.
    pub(crate) region: Option<[u8; 2]>,
}

impl Events {
    pub(crate) const fn new() -> Self {
        Self { left: [0; COUNTERS], used: (1 << FIRST) - 1, region: None }
    }

    /// A counter for an event.
    pub(crate) fn take(&mut self) -> Option<u8> {
        let counter = self.used.trailing_ones() as u8;
        if usize::from(counter) >= COUNTERS {
            return None;
        }
        self.used |= 1 << counter;
        Some(counter)
    }

    fn take_two(&mut self) -> Option<[u8; 2]> {
        let puts = self.take()?;
        let gets = self.take();
        if gets.is_none() {
            self.free(puts);
        }
        Some([puts, gets?])
    }

    pub(crate) fn begin(&mut self, counter: u8) {
        if let Some(left) = self.left.get_mut(usize::from(counter)) {
            *left += 1;
        }
    }

    pub(crate) fn end(&mut self, counter: u8) {
        if let Some(left) = self.left.get_mut(usize::from(counter)) {
            *left = left.saturating_sub(1);
        }
    }

    pub(crate) fn is_done(&self, counter: u8) -> bool {
        self.left.get(usize::from(counter)).is_none_or(|left| *left == 0)
    }

    /// The event of counters that were taken; they are free if nothing is under way.
    pub(crate) fn event(&mut self, counters: [u8; 2]) -> Event {
        let mut event = Event(counters);
        self.test(&mut event);
        event
    }

    fn free(&mut self, counter: u8) {
        self.used &= !(1 << counter);
    }

    /// Is it done? Then it is [`Event::DONE`] from now on.
    fn test(&mut self, event: &mut Event) -> bool {
        if !event.0.iter().all(|counter| *counter == 0 || self.is_done(*counter)) {
            return false;
        }
        for counter in core::mem::take(&mut event.0).into_iter().filter(|counter| *counter != 0) {
            self.free(counter);
        }
        true
    }

    fn is_done_of(&self, which: Which) -> bool {
        (which == Which::Gets || self.is_done(PUTS)) && (which == Which::Puts || self.is_done(GETS))
    }
}

impl<S> Rank<'_, S> {
    /// Is it done (`gex_Event_Test`)? It does not poll.
    pub fn test(&mut self, event: &mut Event) -> bool {
        self.events.test(event)
    }

    /// Is this part of it done (`gex_Event_QueryLeaf`, and a test of the leaf)? It does not poll; the event stays as it is.
    pub fn test_leaf(&self, event: &Event, leaf: Leaf) -> bool {
        let [puts, gets] = event.0;
        match leaf {
            Leaf::Local => true,
            Leaf::Puts => puts == 0 || self.events.is_done(puts),
            Leaf::Gets => gets == 0 || self.events.is_done(gets),
        }
    }

    /// Waits for this part of it, and polls meanwhile.
    pub fn wait_leaf(&mut self, event: &Event, leaf: Leaf) -> Result<(), GasError> {
        self.wait_while(|rank| !rank.test_leaf(event, leaf))
    }

    /// Are all done (`gex_Event_TestAll`)?
    pub fn test_all(&mut self, events: &mut [Event]) -> bool {
        events.iter_mut().all(|event| self.events.test(event))
    }

    /// Is one done that was not, or are there none (`gex_Event_TestSome`)?
    pub fn test_some(&mut self, events: &mut [Event]) -> bool {
        let (mut some, mut pending) = (false, false);
        for event in events.iter_mut().filter(|event| **event != Event::DONE) {
            let done = self.events.test(event);
            (some, pending) = (some || done, pending || !done);
        }
        some || !pending
    }

    /// Waits until it is done, and polls meanwhile (`gex_Event_Wait`).
    pub fn wait(&mut self, mut event: Event) -> Result<(), GasError> {
        self.wait_while(|rank| !rank.events.test(&mut event))
    }

    /// Waits for all (`gex_Event_WaitAll`). Each is [`Event::DONE`] then.
    pub fn wait_all(&mut self, events: &mut [Event]) -> Result<(), GasError> {
        self.wait_while(|rank| !rank.test_all(events))
    }

    /// Waits until one is done that was not (`gex_Event_WaitSome`); without any it returns at once.
    pub fn wait_some(&mut self, events: &mut [Event]) -> Result<(), GasError> {
        self.wait_while(|rank| !rank.test_some(events))
    }

    /// Are the transfers without events done (`gex_NBI_Test`)?
    pub fn test_nbi(&mut self, which: Which) -> bool {
        self.events.is_done_of(which)
    }

    /// Waits for them (`gex_NBI_Wait`).
    pub fn wait_nbi(&mut self, which: Which) -> Result<(), GasError> {
        self.wait_while(|rank| !rank.events.is_done_of(which))
    }

    /// An access region (`gex_NBI_BeginAccessRegion`): the event of all transfers without events that `f`
    /// begins. One does not begin in another.
    pub fn region(&mut self, f: impl FnOnce(&mut Self) -> Result<(), GasError>) -> Result<Event, GasError> {
        if self.events.region.is_some() {
            return Err(GasError::Region);
        }
        let counters = self.events.take_two();
        // Without counters they are waited for at its end.
        self.events.region = Some(counters.unwrap_or([BLOCKING; 2]));
        let result = f(self);
        self.events.region = None;
        let event = match counters {
            Some(counters) => self.events.event(counters),
            None => {
                self.wait_while(|rank| !rank.events.is_done(BLOCKING))?;
                Event::DONE
            }
        };
        match result {
            Ok(()) => Ok(event),
            Err(why) => {
                self.wait(event)?;
                Err(why)
            }
        }
    }

    pub(crate) fn wait_while(&mut self, mut goes_on: impl FnMut(&mut Self) -> bool) -> Result<(), GasError> {
        while goes_on(self) {
            if self.poll_once()? == 0 {
                self.rest()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_done_when_its_pieces_are() {
        let mut events = Events::new();
        let counter = events.take().expect("free");
        events.begin(counter);
        events.begin(counter);
        let mut event = events.event([counter, 0]);
        events.end(counter);
        assert!(event != Event::DONE && !events.test(&mut event));
        events.end(counter);
        assert!(events.test(&mut event) && event == Event::DONE && events.test(&mut event));
        assert_eq!(events.take(), Some(counter), "used again");
    }

    #[test]
    fn an_event_of_puts_and_gets_is_done_with_both() {
        let mut events = Events::new();
        let [puts, gets] = events.take_two().expect("free");
        events.begin(puts);
        events.begin(gets);
        let mut event = events.event([puts, gets]);
        events.end(puts);
        assert!(!events.test(&mut event) && events.is_done(puts));
        events.end(gets);
        assert!(events.test(&mut event) && event == Event::DONE);
        assert_eq!(events.take_two(), Some([puts, gets]), "both are free");
    }

    #[test]
    fn all_counters_are_handed_out() {
        let mut events = Events::new();
        let all: heapless::Vec<u8, 64> = core::iter::from_fn(|| events.take()).collect();
        assert_eq!(all.len(), COUNTERS - usize::from(FIRST));
        assert_eq!(events.event([10, 0]), Event::DONE);
        assert_eq!(events.take_two(), None, "one is left");
        assert_eq!(events.take(), Some(10));
    }
}
