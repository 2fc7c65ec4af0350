//! `README.md` and `docs/offload.md`.

use super::{Done, loopback};
use hamr_comm::{BufferPtr, Context, Element, Fault, Program, Task, offload};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

mod readme {
    use hamr_comm::{Context, offload};

    #[offload]
    pub fn axpy(_: &mut Context, a: f64, x: &[f64], y: &mut [f64]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y += a * x;
        }
    }
}

#[test]
fn the_readme_begins_with_a_handler_and_a_program() -> Done {
    let (xs, mut ys) = (vec![1.0, 2.0], vec![10.0, 20.0]);
    loopback().sync_staged(readme::axpy::staged(2.0, &xs, &mut ys))?;
    assert_eq!(ys, [12.0, 24.0]);
    {
        use hamr_tests_kernels::slices::add_scaled as axpy;
        let dev = hamr::Runtime::new()?.open("shm", hamr::Image::find("hamr-checks")?)?;
        dev.sync_staged(axpy::staged(2.0, &xs, &mut ys))?;
        let (x, y) = (dev.buffer(&xs)?, dev.buffer(&ys)?);
        dev.sync(axpy::with(2.0, x.ptr(), y.ptr()))?;
        assert_eq!((y.read()?, ys), (vec![16.0, 32.0], vec![14.0, 28.0]));
    }
    Ok(())
}

mod views {
    use super::*;

    /// `y += a x`.
    #[offload]
    pub fn axpy(cx: &mut Context, a: f64, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<(), Fault> {
        let (x, y) = cx.views((x.read(), y.write()))?;
        y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
        Ok(())
    }
}

#[test]
fn a_handler_takes_views() -> Done {
    let dev = loopback();
    let (x, y) = (dev.buffer(&[1.0, 2.0])?, dev.buffer(&[10.0, 20.0])?);
    dev.sync(views::axpy::with(2.0, x.ptr(), y.ptr()))?;
    assert_eq!(y.read()?, [12.0, 24.0]);
    Ok(())
}

mod slices {
    use super::*;

    #[offload]
    pub fn axpy(_: &mut Context, a: f64, x: &[f64], y: &mut [f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
    }
}

#[test]
fn a_handler_takes_slices() -> Done {
    use slices::axpy;
    let (dev, xs, mut ys) = (loopback(), vec![1.0, 2.0], vec![10.0, 20.0]);
    let (x, y) = (dev.buffer(&xs)?, dev.buffer(&ys)?);
    dev.sync_staged(axpy::staged(2.0, &xs, &mut ys))?;
    dev.sync(axpy::with(2.0, x.ptr(), y.ptr()))?;
    assert_eq!((y.read()?, ys), (vec![12.0, 24.0], vec![12.0, 24.0]));
    Ok(())
}

mod kernels {
    use super::*;

    #[offload(instances(f32, f64))]
    pub fn fill<T: Element>(cx: &mut Context, value: T, y: BufferPtr<T>) -> Result<(), Fault> {
        cx.view_mut(y)?.fill(value);
        Ok(())
    }

    #[offload(instances((f32, u8), (f64, u16)))]
    pub fn find<T: Element, I: Element>(_: &mut Context, x: BufferPtr<T>, at: BufferPtr<I>) -> bool {
        x.len() == at.len()
    }
}

hamr_comm::register!(kernels::fill::<i64>, kernels::fill::<u16>);

#[test]
fn instances_are_listed_or_registered() -> Done {
    let dev = loopback();
    let (x, y) = (dev.buffer(&[0f64; 3])?, dev.buffer(&[0u16; 3])?);
    dev.sync(kernels::fill::with(1.5f64, x.ptr()))?;
    dev.sync(kernels::fill::with(7u16, y.ptr()))?;
    assert_eq!((x.read()?, y.read()?), (vec![1.5; 3], vec![7; 3]));
    assert!(dev.sync(kernels::find::with(x.ptr(), y.ptr()))?);
    Ok(())
}

static QUOTA: AtomicU32 = AtomicU32::new(0);

pub struct Admitted<'c> {
    _task: &'c Task<'c>,
}

impl Program for Admitted<'static> {
    type This<'c> = Admitted<'c>;
    fn enter<R>(task: &mut Task<'_>, f: impl FnOnce(&mut Admitted<'_>) -> R) -> Result<R, Fault> {
        task.wait_until(|| QUOTA.load(Relaxed) > 0)?;
        Ok(f(&mut Admitted { _task: task }))
    }
}

#[offload(unordered)]
pub fn square(_: &mut Admitted, value: u64) -> u64 {
    value * value
}

#[test]
fn a_policy_says_when_its_handlers_run() -> Done {
    let dev = loopback();
    let waits = dev.offload(square::with(7))?;
    dev.ping()?;
    assert!(!waits.is_done());
    QUOTA.store(1, Relaxed);
    assert_eq!(waits.wait()?, 49);
    Ok(())
}

#[test]
fn a_program_opens_a_device_and_calls() -> Done {
    use hamr_kernels::demo::{axpy, fill};
    let xs = [1.0, 2.0];
    let runtime = hamr::Runtime::new()?;
    let dev = runtime.open("shm", hamr::Image::find("hamr-checks")?)?;
    for warning in dev.warnings() {
        eprintln!("{warning}");
    }

    let x = dev.buffer(&xs)?;
    let y = dev.allocate::<f64>(xs.len())?;
    dev.sync(fill::with(0.0, y.ptr()))?;
    let pending = dev.offload(axpy::with(2.0, x.ptr(), y.ptr()))?;
    pending.wait()?;
    let result = y.read()?;
    assert_eq!(result, [2.0, 4.0]);
    Ok(())
}
