//! Which script runs where: what all workers share of the scripts of one Config.

use super::circuit_breaker::CircuitBreaker;
use super::seat::Thread;
use std::sync::Arc;
use weir_config::{BodyMap, Config, Handler, Script};
use weir_script::{Engine, EngineError, Limits, Program};

/// The scripts of a Config.
#[derive(Debug)]
pub(crate) struct ScriptPlan {
    /// Those that every worker has.
    pub(crate) programs: Vec<Arc<Program>>,
    pub(crate) limits: Limits,
    /// By API and route.
    places: Vec<Vec<Places>>,
}

/// Where the scripts of a route run.
#[derive(Debug, Default)]
struct Places {
    handler: Option<Place>,
    request_map: Option<Place>,
    response_map: Option<Place>,
}

/// Which of a route's scripts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Handler,
    RequestMap,
    ResponseMap,
}

/// Where the script of a route runs.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) placement: Placement,
    pub(crate) breaker: CircuitBreaker,
}

#[derive(Debug)]
pub(crate) enum Placement {
    /// In the worker's engine, by this number.
    Here(usize),
    /// On a thread of its own.
    Thread(Arc<Thread>),
}

impl ScriptPlan {
    /// Compiles every script once, and starts threads for those that have one. What is the same in
    /// `before` goes on.
    ///
    /// # Errors
    /// The memory of an engine is too little for them, or a thread cannot be started.
    pub(crate) fn new(config: &Config, before: Option<&Self>) -> Result<Self, EngineError> {
        let limits = Limits { memory: config.scripts.memory };
        let mut plan = Self { programs: Vec::new(), limits, places: Vec::new() };
        for api in &config.apis {
            let mut places = Vec::with_capacity(api.routes.len());
            for route in &api.routes {
                let handler = match &route.handler {
                    Handler::Script(script) => Some(&**script),
                    _ => None,
                };
                let mut place = |script: Option<&Script>| {
                    script.map(|script| plan.place_for(script, before)).transpose()
                };
                places.push(Places {
                    handler: place(handler)?,
                    request_map: place(mapping(route.request_map.as_ref()))?,
                    response_map: place(mapping(route.response_map.as_ref()))?,
                });
            }
            plan.places.push(places);
        }
        let unchanged = before.is_some_and(|before| plan.same_programs(before));
        if !plan.programs.is_empty() && !unchanged {
            Engine::new(&plan.programs, &plan.limits)?;
        }
        Ok(plan)
    }

    /// Where a script of a route runs, if it has this one.
    pub(crate) fn place(&self, api: usize, route: usize, part: Part) -> Option<&Place> {
        let places = self.places.get(api)?.get(route)?;
        match part {
            Part::Handler => places.handler.as_ref(),
            Part::RequestMap => places.request_map.as_ref(),
            Part::ResponseMap => places.response_map.as_ref(),
        }
    }

    /// Whether an engine made for the one serves the other.
    pub(crate) fn same_programs(&self, other: &Self) -> bool {
        self.programs == other.programs && self.limits == other.limits
    }

    fn place_for(&mut self, script: &Script, before: Option<&Self>) -> Result<Place, EngineError> {
        let placement = if script.isolated {
            let kept = before.and_then(|before| before.thread(&script.program, &self.limits));
            let thread = match kept {
                Some(thread) => thread,
                None => Arc::new(Thread::start(&script.program, &self.limits)?),
            };
            Placement::Thread(thread)
        } else {
            self.programs.push(Arc::clone(&script.program));
            Placement::Here(self.programs.len() - 1)
        };
        Ok(Place { placement, breaker: CircuitBreaker::default() })
    }

    fn thread(&self, program: &Program, limits: &Limits) -> Option<Arc<Thread>> {
        let places = self.places.iter().flatten();
        let places = places.flat_map(|p| [&p.handler, &p.request_map, &p.response_map]);
        let threads = places.flatten().filter_map(|place| match &place.placement {
            Placement::Thread(thread) => Some(thread),
            Placement::Here(_) => None,
        });
        let mut same = threads.filter(|thread| thread.runs(program, limits));
        same.next().map(Arc::clone)
    }
}

/// The script that maps, if one does.
fn mapping(map: Option<&BodyMap>) -> Option<&Script> {
    match map {
        Some(BodyMap::Script(script)) => Some(script),
        _ => None,
    }
}
