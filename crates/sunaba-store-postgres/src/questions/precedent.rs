//! Answers that count for later questions too.

use sunaba_store_sql::draft::Precedent;
use sunaba_store_sql::rows::QuestionRow;
use sunaba_types::{Question, TaskId};

use crate::fault::Fault;
use crate::rows::all;
use crate::unit::Unit;

/// What was answered before and counts for this one too.
pub(super) async fn precedent(unit: &mut Unit, question: &Question) -> Result<Option<Precedent>, Fault> {
    if let Some(row) = remembered(unit, question).await? {
        return Ok(Some(Precedent::Remembered(row.try_into()?)));
    }
    let Some(task) = question.task_id.as_ref().map(TaskId::as_str) else { return Ok(None) };
    let tool = question.tool.as_str();
    let late = question_query!(
        "WHERE q.task_id = $1 AND q.tool = $2 AND q.state = 'answered' AND q.carried_to = ''
         ORDER BY q.id DESC LIMIT 20",
        task,
        tool
    )
    .fetch_all(unit.sql())
    .await?;
    let late: Vec<Question> = all(late)?;
    Ok(late.into_iter().find(|before| before.input == question.input).map(Precedent::Late))
}

/// The newest answer that is remembered for this tool, in this sandbox or another one of its task. Each has an index of
/// its own: who asks for either at once walks over everybody's answers.
async fn remembered(unit: &mut Unit, question: &Question) -> Result<Option<QuestionRow>, Fault> {
    let (key, tool) = (question.sandbox_id.as_str(), question.tool.as_str());
    let here = question_query!(
        "WHERE q.sandbox_id = $1 AND q.tool = $2 AND q.state = 'answered' AND q.remember = 'tool'
         ORDER BY q.id DESC LIMIT 1",
        key,
        tool
    )
    .fetch_optional(unit.sql())
    .await?;
    let Some(task) = question.task_id.as_ref().map(TaskId::as_str) else { return Ok(here) };
    let in_task = question_query!(
        "WHERE q.task_id = $1 AND q.tool = $2 AND q.state = 'answered' AND q.remember = 'tool'
         ORDER BY q.id DESC LIMIT 1",
        task,
        tool
    )
    .fetch_optional(unit.sql())
    .await?;
    Ok(here.into_iter().chain(in_task).max_by(|one, other| one.id.cmp(&other.id)))
}
