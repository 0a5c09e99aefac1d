using System;
using System.IO;
using System.Text;
using Laurel;

/// <summary>Reads lines of JSON and writes each again, or "refused" and the reason.</summary>
internal static class JsonLines
{
    private static void Main()
    {
        var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
        var output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false));
        for (string line; (line = input.ReadLine()) != null;)
        {
            try
            {
                output.WriteLine(Json.Write(Json.Parse(line).Raw));
            }
            catch (FormatException error)
            {
                output.WriteLine("refused: " + error.Message);
            }
        }
        output.Flush();
    }
}
