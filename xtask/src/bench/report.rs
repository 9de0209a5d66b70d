//! What a bench hands over: a table, JSON, the verdict on promises, figures for the page.

use std::fs;
use std::process::ExitCode;

use serde::Serialize;

use crate::bench::CommonArgs;
use crate::print;
use crate::specification::{Measured, Specification};
use crate::trouble::{OrTrouble, Trouble};

/// A finished bench.
pub(crate) struct Report<'a, T> {
    /// The section of SPECIFICATION.md that holds its table.
    pub(crate) section: &'static str,
    /// The table with what must be said about it.
    pub(crate) text: String,
    /// The same for programs.
    pub(crate) data: &'a T,
    /// The promises that this bench can judge.
    pub(crate) judges: &'static [&'static str],
    pub(crate) measured: Vec<Measured>,
}

#[derive(Serialize)]
struct Document<'a, T> {
    #[serde(flatten)]
    data: &'a T,
    promises: Vec<Verdict>,
}

#[derive(Serialize)]
struct Verdict {
    key: String,
    bound: String,
    measured: Option<f64>,
    kept: bool,
}

impl<T: Serialize> Report<'_, T> {
    /// Prints, writes what was asked for, and answers whether the promises are kept.
    pub(crate) fn deliver(&self, args: &CommonArgs) -> Result<ExitCode, Trouble> {
        let mut page = Specification::read()?;
        let promises = self.verdicts(&page)?;
        let kept = promises.iter().all(|it| it.kept);
        print::result(&self.text)?;
        print::result(&lines(&promises))?;
        if let Some(path) = args.json() {
            let unwritten = || format!("could not write `{}`", path.display());
            let document = Document { data: self.data, promises };
            let json = serde_json::to_string_pretty(&document).or_trouble(unwritten)?;
            fs::write(path, json + "\n").or_trouble(unwritten)?;
        }
        self.write(args, &mut page)?;
        Ok(if args.check && !kept { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn write(&self, args: &CommonArgs, page: &mut Specification) -> Result<(), Trouble> {
        if !args.write {
            return Ok(());
        }
        page.record(&self.measured)?;
        page.replace(self.section, &self.text)?;
        page.save()
    }

    fn verdicts(&self, page: &Specification) -> Result<Vec<Verdict>, Trouble> {
        let promises = page.promises()?;
        let judged = promises.iter().filter(|it| self.judges.contains(&it.key.as_str()));
        let verdicts = judged.map(|promise| {
            let figure = self.measured.iter().find(|it| it.key == promise.key);
            Verdict {
                key: promise.key.clone(),
                bound: promise.bound.to_string(),
                measured: figure.map(|it| it.value),
                // What was not measured was not kept: a contestant that is gone proves nothing.
                kept: figure.is_some_and(|it| promise.bound.holds(it.value)),
            }
        });
        Ok(verdicts.collect())
    }
}

fn lines(verdicts: &[Verdict]) -> String {
    let line = |verdict: &Verdict| {
        let Verdict { key, bound, measured, kept } = verdict;
        match (measured, kept) {
            (None, _) => format!("unknown  {key} {bound}: not measured"),
            (Some(figure), true) => format!("kept     {key} {bound}: {figure:.3}"),
            (Some(figure), false) => format!("MISSED   {key} {bound}: {figure:.3}"),
        }
    };
    format!("\n{}", verdicts.iter().map(line).collect::<Vec<_>>().join("\n"))
}
