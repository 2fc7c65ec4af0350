//! Prints the numbers of the papers' figures, one a line: name, bytes, value, what was done, with tabs between.

fn main() -> Result<(), hamr::Error> {
    for number in hamr_tests::paper::numbers()? {
        println!("{}\t{}\t{:.6}\t{}", number.name, number.bytes, number.value, number.done);
    }
    Ok(())
}
