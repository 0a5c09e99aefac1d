//! The cache of whole answers to queries.
//!
//! It keeps only answers without errors and without fields that are private or uncacheable by the
//! hints of the schema, and only for questions that come again: an answer that is asked for once
//! costs more to keep than it may save. A request is known by its bytes: one whose answer is kept
//! is not parsed, and one that would be refused finds none.

use std::hash::{BuildHasher, Hash, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use ranking::store::Store;
use tokio::time::Instant;

use super::execution::{Method, Received};
use super::response::Answer;
use crate::access::Principal;
use crate::cache::shared::{GoodUntil, SharedCache};
use engine::settings::{CacheSettings, Switch};

/// The questions that are remembered for the case that they come again.
const QUESTIONS: usize = 4096;

/// The cache of answers.
pub struct AnswerCache {
    answers: SharedCache<AnswerKey, Answer>,
    questions: Questions,
    /// On if answers to access tokens are kept.
    token_answers: Switch,
}

/// The questions that came last: a hash in each place.
struct Questions {
    hashes: Box<[AtomicU64]>,
    hasher: RandomState,
}

/// Everything that an answer depends on: a request as it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AnswerKey {
    method: Method,
    /// The body, or the query string of the URL.
    parameters: Bytes,
    /// The client, as far as the answer depends on it.
    principal: Option<Arc<Principal>>,
}

impl AnswerKey {
    /// The same key, which holds no memory of a connection.
    fn detached(&self) -> Self {
        Self { parameters: Bytes::copy_from_slice(&self.parameters), ..self.clone() }
    }
}

impl AnswerCache {
    /// Starts empty.
    pub fn new(store: &Store, caches: &CacheSettings) -> Self {
        let bytes = |question: &AnswerKey, answer: &Answer| {
            question.parameters.len() + answer.bytes() + 256
        };
        let age = Duration::from_millis(caches.cache_age_ms);
        Self {
            answers: SharedCache::new(store, age, caches.answer_cache_bytes, bytes),
            questions: Questions::new(),
            token_answers: caches.token_answers,
        }
    }

    /// The question of a request; `None` if its answer is not kept, as for a player: there may be
    /// any number of them.
    pub fn question(
        &self,
        received: &Received,
        principal: Option<&Arc<Principal>>,
    ) -> Option<AnswerKey> {
        let is_kept = match principal {
            None => true,
            Some(principal) => self.token_answers == Switch::On && !principal.is_player,
        };
        is_kept.then(|| AnswerKey {
            method: received.method,
            parameters: received.parameters.clone(),
            principal: principal.cloned(),
        })
    }

    /// The cached answer, if there is a good one.
    pub async fn get(&self, question: &AnswerKey) -> Option<Answer> {
        let fetched = self.answers.get(question).await?;
        Some(fetched.value).filter(Answer::is_for_all)
    }

    /// The cached answer, or else that of `execution`, which is kept if its question came before.
    /// Once it is there, `good_until` says how long it is good.
    pub async fn find(
        &self,
        question: &AnswerKey,
        good_until: &GoodUntil,
        execution: impl Future<Output = Answer> + Send,
    ) -> Answer {
        if !self.questions.comes_again(question) {
            return execution.await;
        }
        let question = question.detached();
        let mut execution = pin!(execution);
        let fetch = async {
            let began = Instant::now();
            let answer = execution.as_mut().await;
            let good_until = match answer.is_for_all() {
                true => good_until.instant(),
                false => began,
            };
            (answer, good_until)
        };
        let fetched = self.answers.find(&question, fetch).await;
        if fetched.is_own || fetched.value.is_for_all() {
            return fetched.value;
        }
        execution.await
    }
}

impl Questions {
    fn new() -> Self {
        let hashes = (0..QUESTIONS).map(|_| AtomicU64::new(0)).collect();
        Self { hashes, hasher: RandomState::new() }
    }

    /// True if a question came before, and none of its place since.
    fn comes_again(&self, question: &impl Hash) -> bool {
        let hash = self.hasher.hash_one(question);
        self.hashes[hash as usize % QUESTIONS].swap(hash, Ordering::Relaxed) == hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_comes_again_until_others_push_it_out() {
        let questions = Questions::new();
        assert!(!questions.comes_again(&"first"));
        assert!(questions.comes_again(&"first"));
        for other in 0..100 * QUESTIONS {
            assert!(!questions.comes_again(&other));
        }
        assert!(!questions.comes_again(&"first"));
    }
}
