//! One budget, and what is left of it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use bulkhead_spec::{Budget, EgressEvent, Host, Money, Spent};

use crate::report::Report;

/// The share of a budget at which a warning is given, in hundredths.
const LOW: u64 = 80;

/// A budget that is being spent.
pub(crate) struct Purse {
    budget: Budget,
    report: Arc<Report>,
    bytes: AtomicU64,
    requests: AtomicU64,
    tokens: AtomicU64,
    money: AtomicU64,
    warned: AtomicBool,
    empty: AtomicBool,
}

impl Purse {
    pub(crate) fn new(budget: Budget, report: Arc<Report>) -> Self {
        Self {
            budget,
            report,
            bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            money: AtomicU64::new(0),
            warned: AtomicBool::new(false),
            empty: AtomicBool::new(false),
        }
    }

    pub(crate) fn covers(&self, host: &Host) -> bool {
        self.budget.covers(host)
    }

    pub(crate) fn is_about_models(&self) -> bool {
        self.budget.is_about_models()
    }

    pub(crate) fn counts_tokens_of(&self, host: &Host) -> bool {
        self.budget.is_about_models() && self.covers(host)
    }

    pub(crate) fn spent(&self) -> Spent {
        Spent {
            budget: self.budget.name.clone(),
            bytes: self.bytes.load(Relaxed),
            requests: self.requests.load(Relaxed),
            tokens: self.tokens.load(Relaxed),
            money: Money(self.money.load(Relaxed)),
        }
    }

    /// Whether there is anything left.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.empty.load(Relaxed) { Err("the budget for this host is spent") } else { Ok(()) }
    }

    pub(crate) fn bytes(&self, bytes: u64) -> Result<(), &'static str> {
        self.bytes.fetch_add(bytes, Relaxed);
        match self.budget.bytes {
            Some(_) => self.weigh(),
            None => self.check(),
        }
    }

    /// Counts a request. The last one of a budget is let through, the next is not.
    pub(crate) fn request(&self) -> Result<(), &'static str> {
        let before = self.requests.fetch_add(1, Relaxed);
        let over = self.budget.requests.is_some_and(|most| before >= most);
        // What has passed and is counted now cannot be taken back.
        let weighed = self.weigh();
        if over { weighed } else { Ok(()) }
    }

    /// Counts what a model says it used. What is spent is spent; the next request is refused.
    pub(crate) fn model(&self, tokens: u64, money: Money) {
        self.tokens.fetch_add(tokens, Relaxed);
        self.money.fetch_add(money.0, Relaxed);
        self.note();
    }

    fn weigh(&self) -> Result<(), &'static str> {
        self.note();
        self.check()
    }

    /// Says so when little is left, or nothing.
    fn note(&self) {
        let spent = self.spent();
        let share = self.budget.share(&spent);
        if share >= 100 && !self.empty.swap(true, Relaxed) {
            self.report.say(EgressEvent::BudgetSpent(spent));
        } else if share >= LOW && !self.warned.swap(true, Relaxed) {
            self.report.say(EgressEvent::BudgetLow(spent));
        }
    }
}
