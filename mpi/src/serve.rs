//! A rank that serves: it keeps devices for the ranks that ask, each from the first time on that one is asked for.

use crate::job::{Job, Said};
use hamr::serve::{Arrivals, Event, Keeper, stop};
use hamr_net::frame::{End, MOST_TEXT, Reason};
use hamr_net::{Arrival, Channel};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks at what other ranks ask, at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// A connection has so long until its HELLO.
const SAY_TIMEOUT: Duration = Duration::from_secs(5);

/// A device, and what keeps it.
struct Kept {
    keeper: String,
    arrivals: Arrivals,
    /// Why it is kept no more.
    ended: Arc<Mutex<Option<String>>>,
    thread: JoinHandle<()>,
}

/// A connection that has not said what it is for.
struct Visit {
    channel: Channel,
    from: i32,
    since: Instant,
}

/// Serves until another rank ends the job. A device that is asked for the first time, by its name (empty: any) and with so many
/// bytes of window, is started by `start`; what keeps it from that the other rank is told. `tell` gets what happens to a device.
pub fn serve(
    job: &Arc<Job>,
    mut start: impl FnMut(&str, u64) -> Result<Keeper, String>,
    tell: impl Fn(&str) + Clone + Send + 'static,
) {
    let (mut kept, mut visits) = (BTreeMap::<String, Kept>::new(), Vec::<Visit>::new());
    let mut moved = Instant::now();
    loop {
        match job.said() {
            Some(Said::Ends) => break,
            Some(Said::Opens(from, pipe)) => {
                moved = Instant::now();
                visits.push(Visit { channel: pipe.channel(End::Server), from, since: moved });
            }
            None => std::thread::sleep((moved.elapsed() / 8).min(LONGEST_PAUSE)),
        }
        for Visit { channel, from, since } in std::mem::take(&mut visits) {
            match Arrival::of(channel, &format!("rank {from}")) {
                Ok(Ok(arrival)) => admit(arrival, &mut kept, &mut start, &tell),
                Ok(Err(channel)) if since.elapsed() < SAY_TIMEOUT => visits.push(Visit { channel, from, since }),
                // Nobody waits for it.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }
    for Kept { keeper, thread, .. } in kept.into_values() {
        // An error means that it has ended.
        let _ = stop(&keeper);
        let _ = thread.join();
    }
}

fn admit(
    arrival: Arrival,
    kept: &mut BTreeMap<String, Kept>,
    start: &mut impl FnMut(&str, u64) -> Result<Keeper, String>,
    tell: &(impl Fn(&str) + Clone + Send + 'static),
) {
    let refuse = |arrival: Arrival, why: &str| {
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        arrival.refuse(Reason::Other, 0, why.get(..why.floor_char_boundary(MOST_TEXT)).unwrap_or_default());
    };
    let name = arrival.name.clone();
    if !kept.contains_key(&name) {
        match start(&name, arrival.window).and_then(|keeper| keep(keeper, tell.clone())) {
            Ok(device) => drop(kept.insert(name.clone(), device)),
            Err(why) => return refuse(arrival, &why),
        }
    }
    let Some(device) = kept.get(&name) else { return };
    let ended = device.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match ended {
        Some(why) => refuse(arrival, &why),
        None => device.arrivals.send(arrival),
    }
}

fn keep(mut keeper: Keeper, tell: impl Fn(&str) + Send + 'static) -> Result<Kept, String> {
    let (name, arrivals) = (keeper.name().to_owned(), keeper.take_arrivals().map_err(|e| e.to_string())?);
    let ended = Arc::<Mutex<Option<String>>>::default();
    let theirs = ended.clone();
    let work = move || {
        let outcome = keeper.run(|event| {
            // Hosts come and go by what a user has asked for.
            if let Event::Restarted { .. } | Event::Ended { .. } = event {
                tell(&event.to_string());
            }
        });
        let why = outcome.map_or_else(|e| e.to_string(), |()| "its device was stopped".into());
        *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    };
    let thread = std::thread::Builder::new().name("hamr-keeper".into()).spawn(work).map_err(|e| e.to_string())?;
    Ok(Kept { keeper: name, arrivals, ended, thread })
}
