//! Hosts of one device on other machines: those that came for it, and the connections of the one that has it.

use super::entrance::{Entrance, Ticket, ring};
use crate::link::Link;
use crate::mirror::{ChannelSide, Served, ServedHeap, serve};
use hamr_net::frame::{Bounds, Purpose, Reason};
use hamr_net::{Arrival, Broken, Channel, Line, Seat, Verdict, serve_transfers};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a new process of the device may take.
const RENEW_LIMIT: Duration = Duration::from_secs(30);

/// What is to be told of them.
pub(crate) enum Told {
    Attached(String),
    /// The device is to leave the epoch of that host. Why it has gone, where it did not leave by itself.
    Left(String, Option<String>),
    Refused(String, String),
}

pub(crate) struct FarHosts {
    /// `None`: they come by a way of the keeper's owner.
    ticket: Option<Ticket>,
    arrivals: Receiver<Arrival>,
    /// Readable when there is an arrival, or a connection has ended.
    bell: Arc<OwnedFd>,
    seat: Seat,
    host: Option<Host>,
    /// The host came again: its new connection, until the device has left the epoch of the old one.
    again: Option<Arrival>,
    /// Who was refused last, why and when.
    refused: Option<(String, String, Instant)>,
}

/// The other end of [`FarHosts::sent`].
pub(crate) struct Sends {
    to: Sender<Arrival>,
    bell: Arc<OwnedFd>,
}

impl Sends {
    pub(crate) fn send(&self, arrival: Arrival) {
        // Without a keeper the connection ends.
        let _ = self.to.send(arrival);
        ring(&self.bell);
    }
}

/// The host that has the device.
struct Host {
    name: String,
    lines: Arc<Mutex<Lines>>,
    threads: Vec<JoinHandle<()>>,
}

/// The end of one connection is that of both.
#[derive(Default)]
struct Lines {
    open: Vec<Line>,
    ended: Option<String>,
}

impl Lines {
    fn how_it_ended(&self) -> Option<String> {
        // Its thread may not have seen it yet.
        let is_over = || self.open.iter().any(Line::has_gone);
        self.ended.clone().or_else(|| is_over().then(|| Broken::Closed.to_string()))
    }

    /// Returns why they have ended, which may have been for another reason before.
    fn end(&mut self, why: String) -> String {
        self.open.iter().for_each(Line::end);
        self.ended.get_or_insert(why).clone()
    }
}

fn locked(lines: &Mutex<Lines>) -> std::sync::MutexGuard<'_, Lines> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FarHosts {
    /// For the device of that name, at that entrance.
    ///
    /// # Errors
    /// No descriptor.
    pub(crate) fn at(entrance: &Arc<Entrance>, name: &str) -> Result<Self, Errno> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (ticket, arrivals) = entrance.add(name, bell.clone());
        Ok(Self::of(Some(ticket), arrivals, bell))
    }

    /// Whom the other end sends.
    ///
    /// # Errors
    /// No descriptor.
    pub(crate) fn sent() -> Result<(Self, Sends), Errno> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (to, arrivals) = channel();
        Ok((Self::of(None, arrivals, bell.clone()), Sends { to, bell }))
    }

    fn of(ticket: Option<Ticket>, arrivals: Receiver<Arrival>, bell: Arc<OwnedFd>) -> Self {
        Self { ticket, arrivals, bell, seat: Seat::default(), host: None, again: None, refused: None }
    }

    fn tell_entrance(&self, what: impl FnMut(&Ticket)) {
        self.ticket.iter().for_each(what);
    }

    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// The host that has the device.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_ref().map(|host| &host.name[..])
    }

    /// A host of this machine has the device, or has it no more.
    pub(crate) fn give_away(&mut self, is_near: bool) {
        if is_near {
            self.seat.give_away();
        }
        self.tell_entrance(|ticket| ticket.is_near(is_near));
        self.tell();
    }

    /// Tells the entrance who has the device.
    fn tell(&self) {
        // One that waits for the device to leave the epoch of its own earlier connection has it already.
        let again = self.again.as_ref().map(|arrival| arrival.link);
        self.tell_entrance(|ticket| ticket.has(self.seat.link().or(again), self.seat.heap()));
    }

    /// The device leaves the epoch of a host, or it has left.
    pub(crate) fn leaves(&self, leaves: bool) {
        self.tell_entrance(|ticket| ticket.leaves(leaves));
    }

    /// Behind [`Told::Left`], once the device has left the epoch.
    pub(crate) fn free(&mut self) {
        self.seat.free();
        self.tell();
        self.leaves(false);
        ring(&self.bell);
    }

    /// Looks at what has come. `other`: who else has the device.
    pub(crate) fn look(&mut self, link: &Arc<dyn Link>, name: &str, window: u64, other: Option<&str>) -> Option<Told> {
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        let ended = self.host.as_ref().and_then(|host| locked(&host.lines).how_it_ended());
        if let Some(why) = ended
            && let Some(told) = self.end_host(why)
        {
            ring(&self.bell);
            return Some(told);
        }
        let again = self.again.take();
        let is_new = again.is_none();
        let arrival = again.or_else(|| self.arrivals.try_recv().ok())?;
        // There may be more.
        ring(&self.bell);
        let told = self.answer(arrival, link, name, window, other);
        if is_new {
            self.tell_entrance(Ticket::came);
        }
        told.filter(|told| self.is_news(told))
    }

    /// A host that waits is told of once a minute.
    fn is_news(&mut self, told: &Told) -> bool {
        let Told::Refused(who, why) = told else { return true };
        let was_told = |(of, reason, when): &(String, String, Instant)| {
            (of, reason) == (who, why) && when.elapsed() < Duration::from_secs(60)
        };
        if self.refused.as_ref().is_some_and(was_told) {
            return false;
        }
        self.refused = Some((who.clone(), why.clone(), Instant::now()));
        true
    }

    fn answer(
        &mut self,
        arrival: Arrival,
        link: &Arc<dyn Link>,
        name: &str,
        window: u64,
        other: Option<&str>,
    ) -> Option<Told> {
        // Whoever has given up is to have nothing.
        if arrival.has_gone() {
            return None;
        }
        let who = format!("{} ({})", arrival.host, arrival.from);
        let refuse = |arrival: Arrival, reason, number, text: &str, why: String| {
            arrival.refuse(reason, number, text);
            Some(Told::Refused(who.clone(), why))
        };
        if !arrival.name.is_empty() && arrival.name != name {
            let why = format!("it wanted {}", arrival.name);
            return refuse(arrival, Reason::Name, 0, name, why);
        }
        if arrival.window > window {
            let why = format!("it wanted a window of {} bytes", arrival.window);
            return refuse(arrival, Reason::Window, window, "", why);
        }
        if let Some(other) = other {
            return refuse(arrival, Reason::Busy, 0, other, format!("{other} has the device"));
        }
        let (id, attempt, purpose) = (arrival.link, arrival.attempt, arrival.purpose);
        let verdict = self.seat.ask(id, attempt, purpose, &arrival.host, Instant::now());
        // Before it is granted: then the host connects once more.
        self.tell();
        match verdict {
            Verdict::Refuse(reason, number, text) => {
                let why = match reason {
                    Reason::Busy => format!("{text} has the device"),
                    _ if text.is_empty() => "it comes late, or back to other memory".into(),
                    _ => text.clone(),
                };
                refuse(arrival, reason, number, &text, why)
            }
            Verdict::Replace => {
                self.again = Some(arrival);
                self.end_host("it came again".into())
            }
            Verdict::Grant if purpose == Purpose::Messages => self.grant_messages(arrival, link, who),
            Verdict::Grant => self.grant_transfers(arrival, link),
        }
    }

    fn grant_messages(&mut self, arrival: Arrival, link: &Arc<dyn Link>, who: String) -> Option<Told> {
        let window = arrival.window;
        // Ranges of the heap are compared with what is laid out, by [`ServedHeap`].
        let bounds = Bounds { window, heap: 0..0, longest: usize::try_from(window).unwrap_or(usize::MAX) };
        let granted = Served::new(link.clone(), RENEW_LIMIT).ok().and_then(|served| {
            let channel = arrival.grant(link.capabilities().doorbell, link.kind(), bounds).ok()?;
            Some((served, channel))
        });
        let Some((served, channel)) = granted else {
            self.seat.withdraw();
            self.tell();
            return None;
        };
        let line = channel.line();
        let served = served.until(move || line.has_gone());
        let mut host = Host { name: who.clone(), lines: Arc::default(), threads: Vec::new() };
        let carries = host.carries(channel, &self.bell, |channel| serve(ChannelSide::new(channel, ""), served).0);
        self.host = Some(host);
        carries.then_some(Told::Attached(who))
    }

    fn grant_transfers(&mut self, arrival: Arrival, link: &Arc<dyn Link>) -> Option<Told> {
        let window = arrival.window;
        let bounds = Bounds { window, heap: 0..window, longest: 0 };
        let memory = link.window().part(0, window).ok()?;
        let host = self.host.as_mut()?;
        // An error means that the host has ended the connection, which ends the other one.
        let channel = arrival.grant(false, "", bounds).ok()?;
        host.carries(channel, &self.bell, move |mut channel| {
            let Err(why) = serve_transfers(&mut channel, &mut ServedHeap::new(memory));
            why.to_string()
        });
        None
    }

    /// Ends the host's connections, and what they do to the window.
    fn end_host(&mut self, why: String) -> Option<Told> {
        let Host { name, lines, threads } = self.host.take()?;
        let why = locked(&lines).end(why);
        self.leaves(true);
        for thread in threads {
            // It has no more to say when it has panicked.
            let _ = thread.join();
        }
        Some(Told::Left(name, Some(why).filter(|why| *why != Broken::Closed.to_string())))
    }
}

impl Drop for FarHosts {
    fn drop(&mut self) {
        self.end_host("the server ends".into());
    }
}

impl Host {
    /// Has a thread of its own for a connection. False: there is none, and the host ends.
    fn carries(
        &mut self,
        channel: Channel,
        bell: &Arc<OwnedFd>,
        carry: impl FnOnce(Channel) -> String + Send + 'static,
    ) -> bool {
        let (lines, bell) = (self.lines.clone(), bell.clone());
        locked(&lines).open.push(channel.line());
        let mut end = Ends { lines: lines.clone(), bell: bell.clone(), why: "its thread has panicked".into() };
        let work = move || {
            let end = &mut end;
            end.why = carry(channel);
        };
        match thread("hamr-host", work) {
            Ok(thread) => self.threads.push(thread),
            Err(e) => {
                locked(&lines).end(format!("starting a thread for it: {e}"));
                ring(&bell);
                return false;
            }
        }
        true
    }
}

/// However a thread ends, so do both connections.
struct Ends {
    lines: Arc<Mutex<Lines>>,
    bell: Arc<OwnedFd>,
    why: String,
}

impl Drop for Ends {
    fn drop(&mut self) {
        locked(&self.lines).end(std::mem::take(&mut self.why));
        ring(&self.bell);
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}
