//! Two targets asked for the same thing: the second one when the first one takes too long.

use super::{Asked, Failure, Outflow, Tries, ask, lost};
use crate::clock;
use crate::exchange::Exchange;
use crate::grpc;
use crate::proxy::hedge::{self, Beside, Hedge, Runner};
use crate::proxy::{Lost, not_taken};
use crate::spans::Open;
use crate::upstream::{Seat, Target};
use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use std::cell::RefCell;
use std::rc::Rc;
use weir_wire::{Framing, Method};

/// The first try, about to begin.
pub(super) struct First<'t, 'a> {
    pub(super) target: &'t Rc<Target>,
    pub(super) seat: Seat,
    pub(super) send: SendRequest<Bytes>,
    pub(super) request: Request<()>,
    pub(super) outflow: Outflow<'a>,
}

/// Whose outcome counts.
pub(super) enum Both<'a> {
    First(Result<Asked<'a>, Failure>),
    Second(Rc<Target>, Result<Asked<'a>, Lost>),
}

/// Why one of the two failed.
enum Bad {
    First(Failure),
    Second(Lost),
}

impl<'u> Tries<'u> {
    /// Whether the first try may have another one beside it.
    pub(super) fn hedge(&self, method: Method) -> Option<Hedge<'u>> {
        Hedge::of(&self.choice, method).filter(|_| self.count == 1)
    }

    /// Asks a target, and another one when that takes too long; `beside` is what that one gets.
    pub(super) async fn ask_both<'a>(
        &mut self,
        hedge: Hedge<'u>,
        exchange: &mut Exchange,
        first: First<'_, 'a>,
        beside: Outflow<'a>,
        head: impl Fn(&Exchange, &Target, Framing) -> Option<Request<()>>,
    ) -> Both<'a> {
        let First { target, seat, send, request, outflow } = first;
        let (method, limits) = (exchange.request.method, self.limits);
        let shared: &Exchange = exchange;
        let deadline = shared.deadline.beside();
        let (second, called) = (RefCell::new(None), Beside::new(method));
        let choice = &mut self.choice;
        let first = async {
            ask(seat, send, request, outflow, &shared.deadline, limits).await.map_err(Bad::First)
        };
        let begin = || {
            let other = hedge.second(choice, target)?;
            let mut request = head(shared, &other, beside.framing())?;
            let span = shared.span.as_ref().map(Open::take_try);
            if let Some(span) = &span
                && let Some(told) = request.headers_mut().get_mut("traceparent")
                && span.context().replaces(Some(told.as_bytes()))
                && let Ok(own) = http::HeaderValue::from_bytes(span.context().as_str().as_bytes())
            {
                *told = own;
            }
            *second.borrow_mut() = Some(Rc::clone(&other));
            let (deadline, called) = (&deadline, &called);
            Some(async move {
                let started = clock::now();
                let seated = other.seat(deadline).await;
                let (seat, send) = seated.map_err(|error| {
                    Bad::Second(not_taken(&other, error, method, (started, shared.span.as_ref())))
                })?;
                called.begin(&other, started, span);
                let asked = ask(seat, send, request, beside, deadline, limits).await;
                asked.map_err(|failure| Bad::Second(lost(&other, failure)))
            })
        };
        let is_good = |asked: &Result<Asked<'_>, Bad>| {
            let status = asked.as_ref().map(|asked| grpc::status_of(&asked.response));
            status.is_ok_and(|status| !hedge.retrying.wants_another(status))
        };
        let raced = hedge.race(first, begin, is_good).await;
        let good = is_good(&raced.answer);
        self.count += u32::from(raced.hedged);
        if let Some(mut call) = hedge::settle(exchange, target, &called, &raced, good) {
            let error = match raced.beaten {
                None => hedge::CANCELLED,
                Some(Ok(asked)) => {
                    call.answered(asked.response.status().as_u16());
                    ""
                }
                Some(Err(Bad::First(failure))) => lost(target, failure).refusal.problem.slug(),
                Some(Err(Bad::Second(lost))) => lost.refusal.problem.slug(),
            };
            call.end(method, error, clock::now());
        }
        match (raced.winner, raced.answer, second.into_inner()) {
            (Runner::Second, Ok(asked), Some(other)) => Both::Second(other, Ok(asked)),
            (_, Err(Bad::Second(lost)), Some(other)) => Both::Second(other, Err(lost)),
            (_, Err(Bad::Second(lost)), None) => Both::Second(Rc::clone(target), Err(lost)),
            (_, Err(Bad::First(failure)), _) => Both::First(Err(failure)),
            (_, Ok(asked), _) => Both::First(Ok(asked)),
        }
    }
}
