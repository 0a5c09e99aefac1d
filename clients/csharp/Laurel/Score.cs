using System;
using System.Collections.Generic;
using System.Globalization;
using System.Security.Cryptography;

namespace Laurel
{
    /// <summary>A score of a member. Its event id makes it safe to send again.</summary>
    public sealed class Score
    {
        /// <summary>Makes a score with a new event id, or with one of the caller's.</summary>
        public Score(string member, decimal value, string eventId = null)
        {
            if (string.IsNullOrEmpty(member))
            {
                throw new ArgumentException("a score has a member");
            }
            Member = member;
            Value = value;
            EventId = eventId ?? RandomId();
        }

        /// <summary>The member's key.</summary>
        public string Member { get; private set; }

        /// <summary>The amount to add, or the value, as the board's policy has it.</summary>
        public decimal Value { get; private set; }

        /// <summary>The id, unique per board and member.</summary>
        public string EventId { get; private set; }

        /// <summary>
        /// The time at which it was earned, in UTC; null for the time at which it arrives. It is
        /// kept to the millisecond.
        /// </summary>
        public DateTime? At { get; set; }

        /// <summary>An object of JSON, for a board with metadata; null without one.</summary>
        public string Metadata { get; set; }

        /// <summary>The object of JSON by which it is sent. Throws FormatException.</summary>
        internal Dictionary<string, object> Fields()
        {
            var fields = new Dictionary<string, object>
            {
                { "member", Member },
                { "score", Value.ToString(CultureInfo.InvariantCulture) },
                { "eventId", EventId },
            };
            if (At != null)
            {
                fields.Add("at", Json.OfTime(At.Value));
            }
            if (Metadata != null)
            {
                fields.Add("metadata", Json.Parse(Metadata).Raw);
            }
            return fields;
        }

        internal static Score Of(Json fields)
        {
            var score = new Score(
                fields["member"].Text, fields["score"].Decimal, fields["eventId"].Text);
            if (!fields["at"].IsNull)
            {
                score.At = fields["at"].Time;
            }
            if (!fields["metadata"].IsNull)
            {
                score.Metadata = Json.Write(fields["metadata"].Raw);
            }
            return score;
        }

        /// <summary>A random UUID, version 4. Guid.NewGuid promises no random numbers.</summary>
        internal static string RandomId()
        {
            var bytes = new byte[16];
            using (var random = RandomNumberGenerator.Create())
            {
                random.GetBytes(bytes);
            }
            // Guid reads its third number from the bytes 6 and 7, the lower one first.
            bytes[7] = (byte)((bytes[7] & 0x0F) | 0x40);
            bytes[8] = (byte)((bytes[8] & 0x3F) | 0x80);
            return new Guid(bytes).ToString("D");
        }
    }

    /// <summary>The outcome of one score.</summary>
    public sealed class SubmitResult
    {
        /// <summary>
        /// APPLIED, DUPLICATE, QUARANTINED, REJECTED or UNKNOWN. New values may come.
        /// </summary>
        public string Status { get; internal set; }

        /// <summary>The error code; null if the score counts.</summary>
        public string Code { get; internal set; }

        /// <summary>The message, for people; null without a code.</summary>
        public string Message { get; internal set; }

        /// <summary>The path of the argument that is wrong; null if none is.</summary>
        public string Argument { get; internal set; }

        /// <summary>The key of the member to send it for, if the code is MEMBER_MERGED.</summary>
        public string MergedInto { get; internal set; }

        /// <summary>The member's entry in "all" afterwards; null unless the score counts.</summary>
        public Entry Entry { get; internal set; }

        /// <summary>True if the score counts, by this request or an earlier one.</summary>
        public bool Counts
        {
            get { return Status == "APPLIED" || Status == "DUPLICATE"; }
        }

        /// <summary>True if the same score with the same event id may count later.</summary>
        public bool IsTransient
        {
            get
            {
                bool isOpen = Status == "REJECTED" || Status == "UNKNOWN";
                return isOpen && LaurelException.IsTransientCode(Code);
            }
        }

        /// <summary>The result of a score whose request was refused.</summary>
        internal static SubmitResult Of(LaurelException error)
        {
            return new SubmitResult
            {
                Status = "REJECTED",
                Code = error.Code,
                Message = error.Message,
                Argument = error.Argument,
            };
        }

        internal static SubmitResult Of(Json fields)
        {
            Json error = fields["error"];
            var result = new SubmitResult
            {
                Status = fields["status"].Text,
                Entry = fields["entry"].IsNull ? null : Entry.Of(fields["entry"]),
            };
            if (!error.IsNull)
            {
                result.Code = error["code"].Text;
                result.Message = error["message"].Text;
                result.Argument = error["argument"].TextOrNull;
                result.MergedInto = error["mergedInto"].TextOrNull;
            }
            return result;
        }
    }
}
