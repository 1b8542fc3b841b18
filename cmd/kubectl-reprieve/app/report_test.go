package app_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
)

// decided returns the text of a decision log with two decisions.
func decided(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, name := range []string{"carried-out", "no-way"} {
		line, err := os.ReadFile(filepath.Join("..", "..", "..", "internal", "decisionlog", "testdata", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		// Both decisions have the same number, which is unique only within a process. So give each
		// decision a process of its own.
		out.WriteString(strings.Replace(string(line), "7d4f_1c9e", name, 1))
	}
	return out.String()
}

func TestReport(t *testing.T) {
	t.Parallel()
	files := map[string]string{"log.jsonl": decided(t), "empty.jsonl": "", "other.jsonl": "kind: Pod\n", "cut.jsonl": decided(t) + `{"schema":`, "cluster.json": cluster,
		"urgent.yaml": strings.Replace(job, "restartPolicy", "priorityClassName: high\n      restartPolicy", 1)}
	for name, c := range map[string]struct {
		args    []string
		input   string
		want    int
		wantOut []string
		wantErr string
	}{
		"to standard output":       {args: []string{"report", "log.jsonl", "-o", "-"}, wantOut: []string{"<!doctype html>", `"decisions":2`, `"gpuHours":10`}},
		"from standard input":      {args: []string{"report", "-", "-o", "-"}, input: decided(t), wantOut: []string{`"decisions":2`}},
		"with a line that was cut": {args: []string{"report", "cut.jsonl", "-o", "-"}, wantOut: []string{`"broken":1`}},
		"the same file twice":      {args: []string{"report", "log.jsonl", "log.jsonl", "-o", "-"}, wantOut: []string{`"preemptions":1`}},
		"with a snapshot":          {args: []string{"report", "log.jsonl", "--snapshot", "cluster.json", "-o", "-"}, wantOut: []string{`"decisions":2`}},
		"with a map and a plan": {
			args:    []string{"report", "log.jsonl", "--snapshot", "cluster.json", "--plan", "urgent.yaml", "-o", "-"},
			wantOut: []string{`"resource":"nvidia.com/gpu"`, `"change":"comes"`, `"change":"goes"`, `"plans":[{"name":"job/`},
		},
		"a plan on no cluster":          {args: []string{"report", "log.jsonl", "--plan", "urgent.yaml"}, want: 2, wantErr: "give the cluster with --snapshot"},
		"a plan that is not":            {args: []string{"report", "log.jsonl", "--snapshot", "cluster.json", "--plan", "no.yaml"}, want: 2, wantErr: "--plan: open no.yaml"},
		"live, with a plan for a log":   {args: []string{"ui", "log.jsonl", "--plan", "urgent.yaml"}, want: 2, wantErr: "--plan is for the map of a cluster"},
		"of nothing":                    {args: []string{"report"}, want: 2, wantErr: "report needs the files"},
		"of a file that there is not":   {args: []string{"report", "no.jsonl"}, want: 2, wantErr: "no.jsonl"},
		"of an empty file":              {args: []string{"report", "empty.jsonl"}, want: 2, wantErr: "empty.jsonl is empty; a file of the scheduler's --decision-log is needed"},
		"of one that stands by, beside": {args: []string{"report", "empty.jsonl", "log.jsonl", "-o", "-"}, wantOut: []string{`"decisions":2`}},
		"of two empty files":            {args: []string{"report", "empty.jsonl", "empty.jsonl"}, want: 2, wantErr: "empty.jsonl is empty"},
		"of a file and another":         {args: []string{"report", "log.jsonl", "other.jsonl"}, want: 2, wantErr: "other.jsonl has no decision in it"},
		"of another file":               {args: []string{"report", "other.jsonl"}, want: 2, wantErr: "other.jsonl has no decision in it"},
		"to a folder that there is not": {args: []string{"report", "log.jsonl", "-o", "no/such/report.html"}, want: 2, wantErr: "--output: "},
		"live, of standard input":       {args: []string{"ui", "-"}, want: 2, wantErr: "only once; use report"},
		"live, of nothing that answers": {args: []string{"ui", "--server", "https://127.0.0.1:1"}, want: 5, wantErr: "127.0.0.1:1"},
		"live, with two sources":        {args: []string{"ui", "log.jsonl", "--scheduler", "https://127.0.0.1:1"}, want: 2, wantErr: "name one of the two"},
		"live, on no port":              {args: []string{"ui", "log.jsonl", "--port", "70000"}, want: 2, wantErr: "between 0 and 65535"},
		"live, of another machine":      {args: []string{"ui", "--scheduler", "https://192.0.2.1:10259", "--server", "https://127.0.0.1:1"}, want: 2, wantErr: "is another machine"},
		"live, of no URL":               {args: []string{"ui", "--scheduler", "127.0.0.1:10259"}, want: 2, wantErr: "it is a URL such as"},
		"live, of a scheduler that is not": {
			args: []string{"ui", "--scheduler", "https://127.0.0.1:1", "--server", "https://127.0.0.1:1"}, want: 5, wantErr: "127.0.0.1:1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, files, c.input, c.args...)
			if code != c.want {
				t.Errorf("exit code %d, want %d; it said %q", code, c.want, errOut)
			}
			for _, words := range c.wantOut {
				if !strings.Contains(out, words) {
					t.Errorf("The answer has no %q", words)
				}
			}
			if !strings.Contains(errOut, c.wantErr) || c.wantErr == "" && errOut != "" || strings.Count(errOut, "\n") > 1 {
				t.Errorf("It says %q, want one line with %q", errOut, c.wantErr)
			}
		})
	}
}

// TestReportIsForItsOwner checks that only the owner of the file can read it, because it names pods
// of all namespaces. It also checks the line that the command prints.
func TestReportIsForItsOwner(t *testing.T) {
	t.Parallel()
	to := filepath.Join(t.TempDir(), "report.html")
	code, out, errOut := run(t, map[string]string{"log.jsonl": decided(t)}, "", "report", "log.jsonl", "-o", to)
	if want := "Wrote " + to + ": 2 decisions, 2 stops\n"; code != 0 || out != want {
		t.Errorf("exit code %d, it says %q and %q, want %q", code, out, errOut, want)
	}
	info, err := os.Stat(to)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("The file's mode is %v, %v", info.Mode(), err)
	}
}

// TestUI checks that the server of ui rejects requests without the secret, requests from other
// sites, and requests for a host name that is not a name of this machine.
func TestUI(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log.jsonl")
	if err := os.WriteFile(log, []byte(decided(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	said, says := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- app.Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: says, ErrOut: io.Discard}, []string{"ui", log},
			func(string) (string, bool) { return "", false })
		_ = says.Close()
	}()
	defer stop()
	line := make([]byte, 200)
	n, err := said.Read(line)
	if err != nil {
		t.Fatalf("It says nothing: %v", err)
	}
	url := strings.Fields(string(line[:n]))[2]
	host := strings.Split(url, "/")[2]
	port := host[strings.LastIndex(host, ":"):]
	for name, c := range map[string]struct {
		method, path, host string
		header             map[string]string
		want               int
		wantBody           string
	}{
		"the page":               {path: url, want: 200, wantBody: `content="live"`},
		"what it asks for":       {path: url + "data.json", want: 200, wantBody: `"decisions":2`},
		"by the other name":      {path: url, host: "localhost" + port, want: 200},
		"a name that leads here": {path: url, host: "evil.example" + port, want: 403, wantBody: "this host is not served"},
		"another port":           {path: url, host: "127.0.0.1:1", want: 403},
		"another site's script":  {path: url + "data.json", header: map[string]string{"Origin": "http://evil.example"}, want: 403, wantBody: "other origins"},
		"another site's image":   {path: url, header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, want: 403},
		"its own script":         {path: url + "data.json", header: map[string]string{"Origin": "http://" + host, "Sec-Fetch-Site": "same-origin"}, want: 200},
		"without the secret":     {path: "http://" + host + "/", want: 404, wantBody: "the whole URL"},
		"without it, the data":   {path: "http://" + host + "/data.json", want: 404},
		"something to write":     {method: http.MethodPost, path: url, want: 405},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = c.host
		for header, value := range c.header {
			request.Header.Set(header, value)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		if err != nil || answer.StatusCode != c.want || !strings.Contains(string(body), c.wantBody) {
			t.Errorf("%s: it answers %d, %.200s, %v; want %d with %q", name, answer.StatusCode, body, err, c.want, c.wantBody)
		}
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("It ends with exit code %d, want 0", code)
	}
}
