using System;

namespace Laurel
{
    /// <summary>
    /// A request that failed. <see cref="Code"/> is one of the server's error codes, or NO_ANSWER,
    /// BAD_ANSWER or QUEUE_FULL, which are the client's own. New codes may come.
    /// </summary>
    public class LaurelException : Exception
    {
        /// <summary>Makes one; fields of the answer are set by <see cref="LaurelClient"/>.</summary>
        public LaurelException(string code, string message, Exception cause = null)
            : base(message, cause)
        {
            Code = code;
        }

        /// <summary>The code, for programs.</summary>
        public string Code { get; private set; }

        /// <summary>The path of the argument that is wrong, such as "of.window"; null if none is.</summary>
        public string Argument { get; internal set; }

        /// <summary>The time after which the server takes another request; null if it did not say.</summary>
        public TimeSpan? RetryAfter { get; internal set; }

        /// <summary>The status of HTTP; 0 without an answer.</summary>
        public int Status { get; internal set; }

        /// <summary>The X-Request-Id that was sent, which the server's log has; null if none was.</summary>
        public string RequestId { get; internal set; }

        /// <summary>True if the server may have done what was asked.</summary>
        public bool MayBeDone { get; internal set; }

        /// <summary>True if the same request may succeed after a pause.</summary>
        public bool IsTransient
        {
            get { return IsTransientCode(Code); }
        }

        internal static bool IsTransientCode(string code)
        {
            switch (code)
            {
                case "NO_ANSWER":
                case "BAD_ANSWER":
                case "RATE_LIMITED":
                case "TIMEOUT":
                case "UNAVAILABLE":
                    return true;
                default:
                    return false;
            }
        }
    }

    /// <summary>A request to which no whole answer came. A transport throws it.</summary>
    public sealed class NoAnswerException : LaurelException
    {
        /// <summary>Makes one; <paramref name="mayBeDone"/> is false if nothing was sent for sure.</summary>
        public NoAnswerException(string message, bool mayBeDone, Exception cause = null)
            : base("NO_ANSWER", message, cause)
        {
            MayBeDone = mayBeDone;
        }
    }
}
