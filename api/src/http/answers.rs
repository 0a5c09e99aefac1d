//! The cache of whole answers to public queries.
//!
//! It keeps only answers to requests without a token, and only those without errors and without
//! fields that are private or uncacheable by the hints of the schema. The key of an answer decides
//! whether a request is accepted, so a request that would be refused finds none.

use std::pin::pin;
use std::time::Duration;

use async_graphql::Request;
use ranking::store::Store;
use tokio::time::Instant;

use super::response::Answer;
use crate::cache::shared::{GoodUntil, SharedCache};
use engine::settings::CacheSettings;

/// The cache of answers.
pub struct AnswerCache(SharedCache<AnswerKey, Answer>);

/// Everything that an answer to a request without a token depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AnswerKey {
    query: String,
    operation_name: Option<String>,
    variables: String,
}

impl AnswerKey {
    /// The question of a request.
    pub fn of(request: &Request) -> Self {
        let variables = serde_json::to_string(&request.variables);
        Self {
            query: request.query.clone(),
            operation_name: request.operation_name.clone(),
            variables: variables.expect("variables came as JSON"),
        }
    }

    fn bytes(&self) -> usize {
        let name = self.operation_name.as_ref().map_or(0, String::len);
        self.query.len() + name + self.variables.len()
    }
}

impl AnswerCache {
    /// Starts empty.
    pub fn new(store: &Store, caches: &CacheSettings) -> Self {
        let bytes = |question: &AnswerKey, answer: &Answer| question.bytes() + answer.bytes() + 256;
        let age = Duration::from_millis(caches.cache_age_ms);
        Self(SharedCache::new(store, age, caches.answer_cache_bytes, bytes))
    }

    /// The cached answer, if there is a good one.
    pub async fn get(&self, question: &AnswerKey) -> Option<Answer> {
        let fetched = self.0.get(question).await?;
        Some(fetched.value).filter(Answer::is_for_all)
    }

    /// The cached answer, or else that of `execution`. Once the latter is there, `good_until` says
    /// how long it is good.
    pub async fn find(
        &self,
        question: &AnswerKey,
        good_until: &GoodUntil,
        execution: impl Future<Output = Answer> + Send,
    ) -> Answer {
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
        let fetched = self.0.find(question, fetch).await;
        if fetched.is_own || fetched.value.is_for_all() {
            return fetched.value;
        }
        execution.await
    }
}
