//! Handlers that use a public driver and the pins of their board. The driver is `shtcx` (Sensirion
//! SHTC3, temperature and humidity), unchanged; its sensor is simulated, on a bus inside the image.
//!
//! Tests include this file as well, for its signatures.

use hamr_comm::{Context, Fault, offload};

/// The driver's result for raw values of the sensor: thousandths of a degree Celsius, and of a
/// percent. If the driver does not wait for the measurement, the sensor refuses.
#[offload(device, name = "hamr_checks::driver::climate")]
pub(crate) fn climate(cx: &mut Context, temperature: u16, humidity: u16, patient: bool) -> Result<(i32, i32), Fault> {
    cx.with(&sensor::BUS, |bus| {
        bus.expose(temperature, humidity);
        let mut sensor = shtcx::shtc3(bus);
        let measured = if patient {
            sensor.measure(shtcx::PowerMode::NormalMode, &mut hamr_device_fw::hal::Delay)
        } else {
            sensor.measure(shtcx::PowerMode::NormalMode, &mut sensor::NoDelay)
        };
        let measured = measured.map_err(|e| match e {
            shtcx::Error::I2c(_) => Fault::msg("the sensor did not acknowledge"),
            shtcx::Error::Crc => Fault::msg("the checksum is wrong"),
        })?;
        Ok((measured.temperature.as_millidegrees_celsius(), measured.humidity.as_millipercent()))
    })?
}

/// Waits by the board's delay. Returns the time on the board's clock, in nanoseconds.
#[offload(device, name = "hamr_checks::driver::waits")]
pub(crate) fn waits(_cx: &mut Context, micros: u32) -> u64 {
    use embedded_hal::delay::DelayNs;
    use hamr_device_fw::hal::Delay;
    let begin = Delay::now_ns();
    Delay.delay_us(micros);
    Delay::now_ns() - begin
}

/// Sets the output pin high twice in a row, and then low.
#[offload(device, name = "hamr_checks::driver::notifies")]
pub(crate) fn notifies(_cx: &mut Context) {
    use embedded_hal::digital::OutputPin;
    let mut doorbell = hamr_device_fw::hal::NotifyPin::new();
    let Ok(()) = doorbell.set_high();
    let Ok(()) = doorbell.set_high();
    let Ok(()) = doorbell.set_low();
}

/// Did the host notify within `millis` milliseconds?
#[offload(device, name = "hamr_checks::driver::hears")]
pub(crate) fn hears(_cx: &mut Context, millis: u32) -> bool {
    use embedded_hal::delay::DelayNs;
    use embedded_hal::digital::InputPin;
    use hamr_device_fw::hal::{Delay, DoorbellPin};
    for _ in 0..millis {
        if DoorbellPin.is_high() == Ok(true) {
            return true;
        }
        Delay.delay_ms(1);
    }
    false
}

/// The sensor, and the bus that only it uses.
#[cfg(feature = "device")]
mod sensor {
    use embedded_hal::delay::DelayNs;
    use embedded_hal::i2c::{ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};
    use hamr_comm::Resource;
    use hamr_device_fw::hal::Delay;

    pub(super) static BUS: Resource<Bus> = Resource::new(Bus { raw: [0; 2], ready_ns: None });

    const ADDRESS: u8 = 0x70;
    /// Measure in normal mode, temperature first (SHTC3 data sheet, table 9).
    const MEASURE: [u8; 2] = [0x78, 0x66];
    /// The time of a measurement: a tenth of a millisecond less than a driver has to wait.
    const TAKES_NS: u64 = 12_000_000;
    /// The error of an address without a device, or with a busy one.
    const NOBODY: ErrorKind = ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address);

    pub(super) struct Bus {
        raw: [u16; 2],
        /// The time at which the measurement is done.
        ready_ns: Option<u64>,
    }

    impl Bus {
        pub(super) fn expose(&mut self, temperature: u16, humidity: u16) {
            *self = Self { raw: [temperature, humidity], ready_ns: None };
        }
    }

    impl ErrorType for Bus {
        type Error = ErrorKind;
    }

    impl I2c for Bus {
        fn transaction(&mut self, address: u8, operations: &mut [Operation<'_>]) -> Result<(), ErrorKind> {
            if address != ADDRESS {
                return Err(NOBODY);
            }
            for operation in operations {
                match operation {
                    Operation::Write(bytes) if **bytes == MEASURE => self.ready_ns = Some(Delay::now_ns() + TAKES_NS),
                    Operation::Write(_) => return Err(ErrorKind::NoAcknowledge(NoAcknowledgeSource::Data)),
                    Operation::Read(bytes) => match self.ready_ns {
                        Some(ready) if Delay::now_ns() >= ready => self.answer(bytes),
                        _ => return Err(NOBODY),
                    },
                }
            }
            Ok(())
        }
    }

    impl Bus {
        fn answer(&self, to: &mut [u8]) {
            let bytes = self.raw.iter().flat_map(|raw| {
                let [high, low] = raw.to_be_bytes();
                [high, low, checksum([high, low])]
            });
            to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        }
    }

    /// CRC-8 with polynomial 0x31, from 0xFF (data sheet, table 16).
    fn checksum(bytes: [u8; 2]) -> u8 {
        bytes.iter().fold(0xFF, |crc, byte| {
            (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x31 })
        })
    }

    /// A delay that returns at once.
    pub(super) struct NoDelay;

    impl DelayNs for NoDelay {
        fn delay_ns(&mut self, _ns: u32) {}
    }
}
