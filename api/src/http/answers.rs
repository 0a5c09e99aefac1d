//! Whole answers to public queries, kept for a moment for whoever asks the same.
//!
//! Only what was asked without a token is kept, and only what has no errors and no field that is private or not to be kept, by the
//! schema's own hints. Whether a request is accepted depends on nothing but what an answer is kept by, so one that would be refused finds none.

use std::pin::pin;
use std::time::Duration;

use async_graphql::Request;
use ranking::store::Store;
use tokio::time::Instant;

use super::response::Answer;
use crate::cache::shared::{CacheSettings, GoodUntil, Hot};

/// The answers.
pub struct Answers(Hot<Question, Answer>);

/// All that an answer to somebody without a token depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    query: String,
    operation_name: Option<String>,
    variables: String,
}

impl Question {
    /// What a request asks.
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

impl Answers {
    /// Has none yet.
    pub fn new(store: &Store, caches: &CacheSettings) -> Self {
        let bytes = |question: &Question, answer: &Answer| question.bytes() + answer.bytes() + 256;
        let age = Duration::from_millis(caches.cache_age_ms);
        Self(Hot::new(store, age, caches.answer_cache_bytes, bytes))
    }

    /// An answer that is there.
    pub async fn get(&self, question: &Question) -> Option<Answer> {
        let fetched = self.0.get(question).await?;
        Some(fetched.value).filter(Answer::is_for_all)
    }

    /// An answer that is there, or what `execution` answers; `good_until` says how long that is good, once it is there.
    pub async fn find(
        &self,
        question: &Question,
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
