//! `corelane capacity`: how many requests a replica carries within a quantile, and how many replicas a
//! load needs, from a described mix or from what a running replica has measured.

mod answer;
mod arguments;
mod autoscaling;
mod calibration;
mod exposition;
mod fetch;
mod source;
mod table;
mod text;

use std::io::Write;
use std::process::ExitCode;

use clap::{ArgMatches, Command};

use self::answer::Answer;
pub(crate) use self::arguments::command;
use self::arguments::{Form, Question};

/// Runs the subcommand; `command` is the whole program, for its usage errors.
pub(crate) fn run(command: &mut Command, matches: &ArgMatches) -> ExitCode {
    let question = match Question::read(matches) {
        Ok(question) => question,
        Err(words) => return refuse(command, &words),
    };
    match capacity(&question) {
        Ok(met) if met || !question.check => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(Failure::Usage(words)) => refuse(command, &words),
        Err(Failure::NoAnswer(words)) => {
            let _ = writeln!(std::io::stderr(), "corelane: {words}");
            ExitCode::FAILURE
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum Failure {
    /// What was asked is not allowed.
    Usage(String),
    /// The replica that was asked did not tell, or no settings do what was asked.
    NoAnswer(String),
}

/// Answers on standard output; whether the target is met.
fn capacity(question: &Question) -> Result<bool, Failure> {
    let model = calibration::model(question)?;
    let answer = Answer::new(question, model).map_err(|error| Failure::Usage(error.to_string()))?;
    let words = match question.form {
        Form::Table => table::render(&answer),
        Form::Json => answer.json(),
        Form::Autoscaling => {
            let arguments: Vec<_> = std::env::args().skip(1).collect();
            autoscaling::render(&answer, &arguments).map_err(Failure::NoAnswer)?
        }
    };
    // Not `print!`, which panics when nobody reads any more.
    let _ = std::io::stdout().write_all(words.as_bytes());
    Ok(answer.met())
}

fn refuse(command: &mut Command, words: &str) -> ExitCode {
    corelane_service::refuse(command.error(clap::error::ErrorKind::ValueValidation, words))
}
