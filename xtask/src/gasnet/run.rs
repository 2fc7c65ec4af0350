//! Runs of programs, and the table of them.

use crate::{Error, child};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Of a run.
const LIMIT: Duration = Duration::from_secs(60);
/// Characters of a last line in the table.
const WIDTH: usize = 90;

/// A program of a folder.
pub(super) struct Program {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Else it is a program of others, in which a line may be a directive by chance.
    pub(super) is_ours: bool,
    /// The mode that it is for; `None`: all.
    pub(super) mode: Option<&'static str>,
    /// `None`: all.
    ranks: Option<Vec<u32>>,
    runs: Vec<Run>,
}

/// A run of a program.
pub(super) struct Case<'a> {
    program: &'a Program,
    /// Its place in the program's comment.
    nth: usize,
    run: &'a Run,
    binary: PathBuf,
    ranks: u32,
}

/// How a run ended: the seconds it took, and its last line or what was wrong.
pub(super) struct Ended {
    seconds: f64,
    result: Result<String, String>,
}

struct Run {
    arguments: Vec<String>,
    expected: Expected,
}

enum Expected {
    Exit(i32),
    /// A failure, and what it says.
    Says(String),
}

impl Program {
    /// Reads what a program's comment says. `arguments` are instead of its runs. One of others may state the exit code and
    /// the ranks in a sentence.
    pub(super) fn read(
        name: String,
        path: &Path,
        arguments: Option<Vec<String>>,
        is_ours: bool,
    ) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
        let mut program = Self { name, path: path.to_owned(), is_ours, mode: None, ranks: None, runs: Vec::new() };
        let text = String::from_utf8_lossy(&bytes);
        let mut code = 0;
        if is_ours {
            program.parse(&text)?;
        } else {
            code = program.stated(&text);
        }
        if arguments.is_some() || program.runs.is_empty() {
            program.runs = vec![Run { arguments: arguments.unwrap_or_default(), expected: Expected::Exit(code) }];
        }
        Ok(program)
    }

    /// Sets what it is expected to end with, in the place of what its comment says.
    pub(super) fn expect(&mut self, code: i32) {
        self.runs.iter_mut().for_each(|run| run.expected = Expected::Exit(code));
    }

    /// Reads a comment for people: that it is for threads (`GASNET_PAR:`), and a sentence such as `Expected: exit code 4 at 2
    /// and more ranks`, of which the code is returned.
    fn stated(&mut self, text: &str) -> i32 {
        let Some(comment) = text.strip_prefix("/*").map(|text| text.split("*/").next().unwrap_or_default()) else {
            return 0;
        };
        // With some empty ones behind it, so that the last word is the first of five, too.
        let words: Vec<_> = comment.split_whitespace().filter(|word| *word != "*").chain([""; 4]).collect();
        self.mode = words.first().is_some_and(|word| *word == "GASNET_PAR:").then_some("par");
        let Some(from) = words.iter().position(|word| *word == "Expected:") else { return 0 };
        let words = &words[from + 1..];
        let number = |word: &&str| word.trim_end_matches([',', '.']).parse().ok();
        let code = words.iter().zip(words.iter().skip(1)).find_map(|(word, next)| match *word {
            "exit" | "code" => number(next),
            _ if *next == "at" => number(word),
            _ => None,
        });
        self.ranks = words.windows(5).find_map(|five| match five {
            ["at", from, "and", "more", "ranks" | "ranks," | "ranks."] => Some((number(from)?..=64).collect()),
            ["at", from, "to", end, ..] => Some((number(from)?..=number(end)?).collect()),
            ["at", only, "ranks" | "ranks," | "ranks.", ..] => Some(vec![number(only)?]),
            _ => None,
        });
        code.map_or(0, |code: u32| code as i32)
    }

    fn parse(&mut self, text: &str) -> Result<(), Error> {
        let comment = text.split("*/").next().unwrap_or_default();
        for line in comment.lines().map(|line| line.trim_start_matches(['/', '*', ' '])) {
            let wrong = || Error::Failed(format!("{}: `{line}` is not understood", self.path.display()));
            if let Some(list) = line.strip_prefix("ranks:") {
                let ranks = list.split_whitespace().map(str::parse).collect::<Result<_, _>>();
                self.ranks = Some(ranks.map_err(|_| wrong())?);
            } else if let Some(run) = line.strip_prefix("run:") {
                let (arguments, expected) = run.split_once('=').ok_or_else(wrong)?;
                let expected = expected.trim();
                let expected = match (expected.strip_prefix("exit "), expected.strip_prefix("says ")) {
                    (Some(code), _) => Expected::Exit(code.parse().map_err(|_| wrong())?),
                    (_, Some(text)) => Expected::Says(text.into()),
                    _ => return Err(wrong()),
                };
                self.runs.push(Run { arguments: arguments.split_whitespace().map(str::to_owned).collect(), expected });
            }
        }
        Ok(())
    }
}

/// How runs ended.
#[derive(Default)]
pub(super) struct Tally {
    passed: usize,
    failed: Vec<String>,
}

impl Tally {
    pub(super) fn row(&mut self, case: &Case<'_>, ended: Ended) {
        self.line(&case.name(), &case.ranks.to_string(), ended);
    }

    fn line(&mut self, name: &str, ranks: &str, Ended { seconds, result }: Ended) {
        let (word, text) = match &result {
            Ok(line) => ("pass", line),
            Err(why) => ("FAIL", why),
        };
        println!("{word}  {name:<44} {ranks:>5} {seconds:>7.2}  {}", text.chars().take(WIDTH).collect::<String>());
        match result {
            Ok(_) => self.passed += 1,
            Err(why) => self.failed.push(format!("{name} at {ranks} ranks: {why}")),
        }
    }

    pub(super) fn not_compiled(&mut self, name: &str, why: &str) {
        self.line(name, "-", Ended { seconds: 0.0, result: Err(why.into()) });
    }

    pub(super) fn end(self) -> Result<(), Error> {
        println!("{} passed, {} failed", self.passed, self.failed.len());
        match self.failed.first() {
            None => Ok(()),
            Some(first) => Err(Error::Failed(format!("{} failed, the first: {first}", self.failed.len()))),
        }
    }
}

impl<'a> Case<'a> {
    /// A program's runs, each at each number of ranks.
    pub(super) fn all(program: &'a Program, binary: &Path, ranks: &[u32]) -> Vec<Self> {
        let own = program.ranks.as_deref().unwrap_or(ranks);
        let both: Vec<u32> = ranks.iter().filter(|count| own.contains(count)).copied().collect();
        // One that is for none of these numbers runs all the same.
        let counts = if both.is_empty() { own.get(..1).unwrap_or_default() } else { &both };
        let case = |(nth, run), ranks: &u32| Self { program, nth, run, binary: binary.to_owned(), ranks: *ranks };
        program.runs.iter().enumerate().flat_map(|run| counts.iter().map(move |count| case(run, count))).collect()
    }

    /// What runs are sorted by.
    pub(super) fn order(&self) -> (&str, usize, u32) {
        (&self.program.name, self.nth, self.ranks)
    }

    fn name(&self) -> String {
        let words = [self.program.name.clone()].into_iter().chain(self.run.arguments.iter().cloned());
        words.collect::<Vec<_>>().join(" ")
    }

    pub(super) fn run(&self) -> Ended {
        let begin = Instant::now();
        let log = self.binary.with_extension(format!("{}.{}.out", self.nth, self.ranks));
        let result = one(self.run, &self.binary, &log, self.ranks);
        Ended { seconds: begin.elapsed().as_secs_f64(), result }
    }
}

/// The last line of a run that went as expected; else why not.
fn one(run: &Run, binary: &Path, log: &Path, ranks: u32) -> Result<String, String> {
    let text = |error: std::io::Error| format!("{}: {error}", log.display());
    let file = fs::File::create(log).map_err(text)?;
    let mut command = Command::new(binary);
    command.args(&run.arguments).env("GASNET_PSHM_NODES", ranks.to_string());
    // Cargo's, where libraries of other profiles lie.
    command.env_remove("LD_LIBRARY_PATH");
    command.stdout(file.try_clone().map_err(text)?).stderr(file);
    let status = child::status(&mut command, LIMIT);
    let output = String::from_utf8_lossy(&fs::read(log).map_err(text)?).into_owned();
    let last = output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    let status = status.map_err(|error| format!("{error}; {last}"))?;
    match &run.expected {
        Expected::Exit(0) if status.success() => match output.lines().find(|line| has_error(line)) {
            Some(line) => Err(format!("exit code 0, but: {line}")),
            None => Ok(last),
        },
        Expected::Exit(code) if status.code() == Some(*code) => Ok(last),
        Expected::Exit(code) => Err(format!("expected exit code {code}, got {status}; {last}")),
        Expected::Says(text) if !status.success() => match output.lines().find(|line| line.contains(text)) {
            Some(line) => Ok(line.to_owned()),
            None => Err(format!("expected it to say `{text}`, the last line is: {last}")),
        },
        Expected::Says(_) => Err("expected a failure, got success".into()),
    }
}

/// Whether a line has the word by which programs report that something is wrong.
fn has_error(line: &str) -> bool {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').any(|word| word == "ERROR")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Program, Error> {
        let mut program =
            Program { name: "a".into(), path: "a.c".into(), is_ours: true, mode: None, ranks: None, runs: Vec::new() };
        program.parse(text).map(|()| program)
    }

    #[test]
    fn a_comment_says_what_is_expected() {
        let program =
            read("/* A test.\n * ranks: 1 3\n * run: one two = exit 7\n * run: = says no such rank */\n * run: = x")
                .expect("it is understood");
        assert_eq!(program.ranks, Some(vec![1, 3]));
        let [first, second] = &program.runs[..] else { panic!("expected two runs, got {}", program.runs.len()) };
        assert_eq!(first.arguments, ["one", "two"]);
        assert!(matches!(first.expected, Expected::Exit(7)));
        assert!(matches!(&second.expected, Expected::Says(text) if text == "no such rank"));
    }

    #[test]
    fn a_program_without_directives_has_none_and_others_are_refused() {
        let program = read("int main() { return 0; }").expect("it is understood");
        assert!(program.runs.is_empty() && program.ranks.is_none());
        assert!(read("/* run: one = wins */").is_err());
    }

    #[test]
    fn others_state_the_exit_code_in_a_sentence() {
        let stated = |text: &str| {
            let mut program = read("").expect("nothing");
            let code = program.stated(&format!("/* It ends.\n * {text} */ int main() {{ return 3; }}"));
            (code, program.ranks.map(|ranks| (ranks[0], ranks.len())))
        };
        for (text, expected) in [
            ("Expected: compiles, exit 0 at 1 and more ranks.", (0, Some((1, 64)))),
            ("Expected: 14 at 2 and more ranks, in every run.", (14, Some((2, 63)))),
            ("Expected: exit code 99 at 1 rank, and better at more, too.", (99, None)),
            ("Expected: exit code 4 at 1 and more\n * ranks.", (4, Some((1, 64)))),
            ("Expected: exit 0 at 1 to 4 ranks.", (0, Some((1, 4)))),
            ("Expected: exit 0 at 2 ranks, 50 times.", (0, Some((2, 1)))),
            ("Expected: never a fault; see the text.", (0, None)),
            ("Run at 2 ranks.", (0, None)),
        ] {
            assert_eq!(stated(text), expected, "{text}");
        }
        let mut threads = read("").expect("nothing");
        assert_eq!((threads.stated("/* GASNET_PAR: 10 threads */"), threads.mode), (0, Some("par")));
    }

    #[test]
    fn an_error_is_a_word() {
        assert!(has_error("0: ERROR: wrong value") && has_error("*** ERROR"));
        assert!(!has_error("0 ERRORS") && !has_error("GASNET_ERROR_NONE: error"));
    }
}
