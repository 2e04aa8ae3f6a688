use super::*;
use weir_model::{RejectionReason, ReplayOutcome};

fn open() -> (tempfile::TempDir, Ledger) {
    let data = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(data.path()).unwrap();
    (data, ledger)
}

fn intent(id: u128, original: u128, again: impl Into<Again>) -> Intent<'static> {
    Intent {
        id,
        original,
        job: None,
        fleet_job: None,
        who: "ops",
        destination: "",
        difference: "",
        again: again.into(),
        base: None,
    }
}

fn start(
    ledger: &Ledger,
    id: u128,
    original: u128,
    again: impl Into<Again>,
) -> Result<(), RejectionReason> {
    ledger.write(|db| record_intent(db, &intent(id, original, again))).unwrap()
}

fn finish(ledger: &Ledger, id: u128, outcome: &ReplayOutcome) -> AttemptState {
    ledger.write(|db| super::finish(db, id, outcome)).unwrap().expect("it had not ended")
}

#[test]
fn an_attempt_is_under_way_alone_and_settles_its_original() {
    let (_data, ledger) = open();
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
    assert_eq!(start(&ledger, 12, 1, true), Err(RejectionReason::Sending), "not even when told to");
    assert_eq!(finish(&ledger, 11, &ReplayOutcome::Response(503, None)), AttemptState::Failed);
    assert_eq!(start(&ledger, 12, 1, false), Ok(()));
    assert_eq!(finish(&ledger, 12, &ReplayOutcome::Response(204, None)), AttemptState::Succeeded);
    // A repeated outcome counts once.
    let twice = ledger.write(|db| super::finish(db, 12, &ReplayOutcome::Response(500, None)));
    assert_eq!(twice, Ok(None));
    assert_eq!(start(&ledger, 13, 1, false), Err(RejectionReason::Settled));
    assert_eq!(start(&ledger, 13, 1, true), Ok(()));
    finish(&ledger, 13, &ReplayOutcome::Rejected(RejectionReason::LimitReached));
    let history = ledger.history(1).unwrap();
    let states: Vec<_> = history.attempts.iter().map(|a| (a.number, a.state, a.status)).collect();
    assert_eq!(
        states,
        [
            (1, AttemptState::Failed, 503),
            (2, AttemptState::Succeeded, 204),
            (3, AttemptState::Refused, 0)
        ]
    );
    assert_eq!(history.attempts[2].reason, "limit-reached");
    assert_eq!(history.changes.len(), 1);
    assert_eq!(ledger.resolution(1).unwrap(), Some(Resolution::Resubmitted));
    assert_eq!(ledger.history(2).unwrap(), History::default());
}

#[test]
fn what_was_being_sent_is_unknown_after_a_crash() {
    let (data, ledger) = open();
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
    drop(ledger);
    let ledger = Ledger::open(data.path()).unwrap();
    ledger.recover().unwrap();
    assert_eq!(ledger.unknown().unwrap(), [11]);
    assert_eq!(start(&ledger, 12, 1, false), Err(RejectionReason::Unknown));
    assert_eq!(start(&ledger, 12, 1, true), Ok(()));
    finish(&ledger, 12, &ReplayOutcome::Unknown);
    // The journal may know better.
    finish(&ledger, 11, &ReplayOutcome::Response(200, None));
    assert_eq!(ledger.resolution(1).unwrap(), Some(Resolution::Resubmitted));
    assert_eq!(ledger.attempt(11).unwrap().unwrap().state, AttemptState::Succeeded);
}

#[test]
fn what_is_said_by_hand_is_kept_in_order() {
    let (_data, ledger) = open();
    for (state, comment) in [(Resolution::Dismissed, "no"), (Resolution::Open, "after all")] {
        ledger.resolve(1, state, "ops", comment).unwrap();
    }
    let changes = ledger.history(1).unwrap().changes;
    assert_eq!(
        (changes[0].state, changes[1].comment.as_str()),
        (Resolution::Dismissed, "after all")
    );
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
}

fn copy(revision: i64, state: Resolution, at: u64) -> ResolutionCopy {
    let (who, comment) = ("other".to_owned(), format!("revision {revision}"));
    ResolutionCopy { transaction: 1, revision, state, who, comment, at }
}

#[test]
fn a_copy_replaces_what_is_older_and_nothing_else() {
    let (_data, ledger) = open();
    let state = || ledger.resolution(1).unwrap();
    let apply = |copies: &[ResolutionCopy]| ledger.copy_resolutions(copies).unwrap();
    let (dismissed, reopened) =
        (copy(2, Resolution::Dismissed, 1_000), copy(3, Resolution::Open, 10));
    assert_eq!(apply(std::slice::from_ref(&dismissed)), 1);
    assert_eq!(start(&ledger, 11, 1, false), Err(RejectionReason::Settled));
    assert_eq!(apply(&[reopened.clone(), dismissed.clone(), reopened]), 1);
    assert_eq!(state(), Some(Resolution::Open));
    // The clock of the node that set the last one was behind.
    let changes = ledger.history(1).unwrap().changes;
    let of = |change: &ResolutionChange| (change.state, change.at.0, change.comment.clone());
    assert_eq!(
        changes.iter().map(of).collect::<Vec<_>>(),
        [
            (Resolution::Dismissed, 1_000, "revision 2".to_owned()),
            (Resolution::Open, 1_000, "revision 3".to_owned())
        ]
    );
    // An attempt of this node succeeds: its copy comes back from the fleet, and older ones do not matter.
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
    finish(&ledger, 11, &ReplayOutcome::Response(200, None));
    assert_eq!(apply(&[dismissed]), 0);
    assert_eq!(apply(&[copy(4, Resolution::Resubmitted, 2_000)]), 1);
    assert_eq!(state(), Some(Resolution::Resubmitted));
    assert_eq!(ledger.history(1).unwrap().changes.len(), 3);
}

#[test]
fn what_is_older_than_transactions_are_kept_goes() {
    let (_data, ledger) = open();
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
    finish(&ledger, 11, &ReplayOutcome::Response(200, None));
    ledger.purge(Duration::from_secs(3600)).unwrap();
    assert_eq!(ledger.history(1).unwrap().attempts.len(), 1);
    std::thread::sleep(Duration::from_millis(2));
    ledger.purge(Duration::ZERO).unwrap();
    assert_eq!(ledger.history(1).unwrap(), History::default());
    assert_eq!(ledger.resolution(1).unwrap(), None);
}

#[test]
fn every_name_is_read_back() {
    let all =
        [Resolution::Open, Resolution::Resubmitted, Resolution::Resolved, Resolution::Dismissed];
    for state in all {
        assert_eq!(state.as_ref().parse(), Ok(state));
    }
    assert!("done".parse::<Resolution>().is_err());
}

/// A job with transactions from 1, newest first, in these states.
fn job_with(ledger: &Ledger, states: &[(&str, &str)]) -> Job {
    let job =
        ledger.new_job(&NewJob { query: "x".to_owned(), ..NewJob::default() }, "ops").unwrap();
    let found: Vec<_> = (1..=states.len())
        .map(|id| PreviewItem { id: id as u128, address: None, reason: None, base: None })
        .collect();
    ledger.persist_page(&job, &found, None, false).unwrap();
    let set = |db: &Transaction<'_>| {
        (1..)
            .zip(states)
            .try_for_each(|(place, (state, reason))| set_item(db, job.number, place, state, reason))
    };
    ledger.write(set).unwrap();
    let job = ledger.job(job.number).unwrap().unwrap();
    ledger.with_counts(job).unwrap()
}

fn ids(page: &JobTransactions) -> Vec<u128> {
    page.transactions.iter().map(|one| one.transaction.0).collect()
}

#[test]
fn transactions_of_a_job_are_pages_in_one_order_whatever_their_state() {
    let (_data, ledger) = open();
    let states = [
        ("failed", ""),
        ("refused", "expired"),
        ("failed", ""),
        ("unknown", ""),
        ("cannot", "masked"),
    ];
    let job = job_with(&ledger, &states);
    let list = |states: &[ItemState], reason: Option<&str>, after, limit| {
        let (states, reason) = (states.to_vec(), reason.map(str::to_owned));
        let list = ListItems { states, reason, after, limit };
        ledger.job_transactions(job.number, &list).unwrap().unwrap()
    };
    let first = list(&[], None, None, 2);
    assert_eq!(
        (ids(&first), first.matching, first.next.map(|id| id.0)),
        (vec![1, 2], Some(5), Some(2))
    );
    let rest = list(&[], None, Some(2), 3);
    assert_eq!((ids(&rest), rest.matching, rest.next), (vec![3, 4, 5], None, None), "counted once");
    let failed = list(&[ItemState::Failed, ItemState::Cannot], None, None, 10);
    assert_eq!((ids(&failed), failed.matching), (vec![1, 3, 5], Some(3)));
    let expired = list(&[], Some("expired"), None, 10);
    assert_eq!((ids(&expired), expired.transactions[0].words.contains("age")), (vec![2], true));
    assert_eq!(ids(&list(&[], None, Some(99), 10)), [] as [u128; 0], "of another job");
    assert_eq!(ledger.job_transactions(99, &ListItems::default()), Ok(None));
}

#[test]
fn a_transaction_of_a_job_has_the_last_attempt_of_that_job() {
    let (_data, ledger) = open();
    let job = job_with(&ledger, &[("pending", "")]);
    let send = |id, job, status| {
        let intent = Intent { job, ..intent(id, 1, true) };
        ledger.write(|db| record_intent(db, &intent)).unwrap().unwrap();
        ledger.write(|db| set_item(db, 1, 1, "sending", "")).unwrap();
        finish(&ledger, id, &ReplayOutcome::Response(status, None));
    };
    send(11, Some(job.number), 503);
    send(12, Some(job.number), 502);
    send(13, None, 500);
    let all = ListItems { limit: 10, ..ListItems::default() };
    let page = ledger.job_transactions(job.number, &all).unwrap().unwrap();
    let one = &page.transactions[0];
    assert_eq!((one.attempt, one.status), (Some(weir_model::TransactionId(12)), 502));
    assert!(one.started.is_some() && one.ended.is_some());
}

#[test]
fn a_retry_has_the_transactions_in_its_states_and_both_jobs_name_each_other() {
    let (_data, ledger) = open();
    let states = [("failed", ""), ("succeeded", ""), ("unknown", ""), ("failed", "")];
    let job = job_with(&ledger, &states);
    let retry = |states: &[ItemState]| {
        let retry = RetryJob { states: states.to_vec(), ..RetryJob::default() };
        ledger.retry(job.number, &retry, "ops").unwrap()
    };
    let next = |job: &Job, limit| -> Vec<u128> {
        ledger.next_to_retry(job, limit).unwrap().iter().map(|item| item.id).collect()
    };
    let failed = retry(&[ItemState::Failed]).unwrap();
    assert_eq!((failed.retry_of, failed.sends()), (Some(job.number), Again::No));
    assert_eq!((next(&failed, 10), next(&failed, 1)), (vec![1, 4], vec![1]));
    let later = Job { cursor: "1".to_owned(), ..failed.clone() };
    assert_eq!(next(&later, 10), [4]);
    let both = retry(&[ItemState::Unknown, ItemState::Failed]).unwrap();
    assert_eq!((next(&both, 10), both.sends()), (vec![1, 3, 4], Again::Unknown));
    let original = ledger.with_counts(job.clone()).unwrap();
    assert_eq!(original.retries, [failed.number, both.number]);
    assert_eq!(retry(&[ItemState::Refused]), Err(RetryBlocker::Nothing));
    ledger.act(job.number, JobAction::Run { rate: None, again: false }).unwrap();
    assert_eq!(retry(&[ItemState::Failed]), Err(RetryBlocker::Active(JobState::Running)));
    let none = ledger.retry(99, &RetryJob::default(), "ops").unwrap();
    assert_eq!(none, Err(RetryBlocker::NoJob));
}

/// A job with one transaction that was sent and failed with this attempt.
fn job_that_failed(ledger: &Ledger, attempt: u128, new: &NewJob) -> Job {
    let job = ledger.new_job(new, "ops").unwrap();
    let found = [PreviewItem { id: 1, address: None, reason: None, base: None }];
    ledger.persist_page(&job, &found, None, false).unwrap();
    fail_item(ledger, attempt, &job, None);
    ledger.act(job.number, JobAction::Cancel).unwrap();
    ledger.job(job.number).unwrap().unwrap()
}

fn fail_item(ledger: &Ledger, attempt: u128, job: &Job, base: Option<RetryBase>) {
    std::thread::sleep(Duration::from_millis(1));
    let (number, again) = (job.number, job.sends());
    let intent = Intent { job: Some(number), base, ..intent(attempt, 1, again) };
    ledger.write(|db| record_intent(db, &intent)).unwrap().unwrap();
    ledger.write(|db| set_item(db, number, 1, "sending", "")).unwrap();
    finish(ledger, attempt, &ReplayOutcome::Response(503, None));
}

/// The retry of a job with one transaction, after its preview.
fn previewed(ledger: &Ledger, of: &Job, again: bool) -> Job {
    let retry = RetryJob { again, ..RetryJob::default() };
    let job = ledger.retry(of.number, &retry, "ops").unwrap().unwrap();
    let found = ledger.next_to_retry(&job, 10).unwrap().into_iter().map(|item| PreviewItem {
        id: item.id,
        address: None,
        reason: None,
        base: item.base,
    });
    ledger.persist_page(&job, &found.collect::<Vec<_>>(), None, false).unwrap();
    ledger.with_counts(ledger.job(job.number).unwrap().unwrap()).unwrap()
}

fn only_state(job: &Job) -> (&str, &str) {
    let [one] = job.transactions.as_slice() else { panic!("{job:?}") };
    (&one.state, &one.reason)
}

#[test]
fn a_retry_sends_what_was_settled_before_the_attempt_that_it_is_based_on() {
    let (_data, ledger) = open();
    ledger.resolve(1, Resolution::Resolved, "ops", "").unwrap();
    let again = NewJob { query: "x".to_owned(), again: true, ..NewJob::default() };
    let job = job_that_failed(&ledger, 11, &again);
    assert_eq!(only_state(&previewed(&ledger, &job, false)), ("pending", ""));
    std::thread::sleep(Duration::from_millis(1));
    ledger.resolve(1, Resolution::Dismissed, "ops", "").unwrap();
    assert_eq!(only_state(&previewed(&ledger, &job, false)), ("cannot", "settled"), "since");
    assert_eq!(only_state(&previewed(&ledger, &job, true)), ("pending", ""), "again");
}

#[test]
fn of_two_retries_of_a_job_one_sends_a_transaction() {
    let (_data, ledger) = open();
    let new = NewJob { query: "x".to_owned(), ..NewJob::default() };
    let job = job_that_failed(&ledger, 11, &new);
    let [first, second] = [0, 1].map(|_| previewed(&ledger, &job, false));
    let base = |job: &Job| ledger.next_items(job.number, 1).unwrap()[0].base;
    assert!(base(&first).is_some_and(|base| base.accepted) && base(&first) == base(&second));
    fail_item(&ledger, 12, &first, base(&first));
    let late = Intent { base: base(&second), ..intent(13, 1, false) };
    let newer = Err(RejectionReason::NewerAttempt);
    assert_eq!(ledger.write(|db| record_intent(db, &late)).unwrap(), newer);
    assert_eq!(only_state(&previewed(&ledger, &job, false)), ("cannot", "newer-attempt"));
    // Its rejection is not what another retry is based on.
    let rejected = previewed(&ledger, &job, false);
    let retry = RetryJob { states: vec![ItemState::Cannot], ..RetryJob::default() };
    let last = ledger.retry(rejected.number, &retry, "ops").unwrap().unwrap();
    assert_eq!(ledger.next_to_retry(&last, 1).unwrap()[0].base, base(&second));
    // That of the attempt that was made is.
    ledger.act(first.number, JobAction::Cancel).unwrap();
    assert_eq!(only_state(&previewed(&ledger, &first, false)), ("pending", ""));
    assert_eq!(only_state(&previewed(&ledger, &job, true)), ("pending", ""));
}

#[test]
fn a_page_of_a_preview_that_was_cancelled_is_dropped() {
    let (_data, ledger) = open();
    let job = ledger.new_job(&NewJob::default(), "ops").unwrap();
    ledger.act(job.number, JobAction::Cancel).unwrap();
    let found = [PreviewItem { id: 1, address: None, reason: None, base: None }];
    ledger.persist_page(&job, &found, None, false).unwrap();
    assert_eq!(ledger.with_counts(job).unwrap().transactions, []);
}

#[test]
fn who_accepts_an_unknown_outcome_does_not_send_what_is_settled() {
    let (data, ledger) = open();
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
    drop(ledger);
    let ledger = Ledger::open(data.path()).unwrap();
    ledger.recover().unwrap();
    assert_eq!(start(&ledger, 12, 1, Again::No), Err(RejectionReason::Unknown));
    assert_eq!(start(&ledger, 12, 1, Again::Unknown), Ok(()));
    finish(&ledger, 12, &ReplayOutcome::Response(200, None));
    assert_eq!(start(&ledger, 13, 1, Again::Unknown), Err(RejectionReason::Settled));
}
