using System;
using System.Collections.Generic;
using System.Text;

namespace Laurel
{
    /// <summary>A score that waits in a <see cref="ScoreQueue"/>.</summary>
    public sealed class QueuedScore
    {
        internal QueuedScore(string board, Score score, DateTime? sentAt)
        {
            Board = board;
            Score = score;
            SentAt = sentAt;
            Bytes = Encoding.UTF8.GetByteCount(Json.Write(Fields(DateTime.UtcNow)));
        }

        /// <summary>The board's slug.</summary>
        public string Board { get; private set; }

        /// <summary>The score.</summary>
        public Score Score { get; private set; }

        /// <summary>
        /// The time, in UTC, at which it was first sent without an answer; null if the server has
        /// not taken it for sure.
        /// </summary>
        public DateTime? SentAt { get; internal set; }

        /// <summary>Its bytes in the file, at most.</summary>
        internal int Bytes { get; private set; }

        internal Dictionary<string, object> Fields()
        {
            return Fields(SentAt);
        }

        internal static QueuedScore Of(Json fields)
        {
            Json sentAt = fields["sentAt"];
            return new QueuedScore(fields["board"].Text, Score.Of(fields["score"]),
                sentAt.IsNull ? (DateTime?)null : sentAt.Time);
        }

        private Dictionary<string, object> Fields(DateTime? sentAt)
        {
            return new Dictionary<string, object>
            {
                { "board", Board },
                { "sentAt", sentAt == null ? null : Json.OfTime(sentAt.Value) },
                { "score", Score.Fields() },
            };
        }
    }
}
