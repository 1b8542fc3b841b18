package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
)

// list returns a list of objects as JSON.
func list(version, kind string, objects ...string) string {
	return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{},"items":[%s]}`, kind, version, strings.Join(objects, ","))
}

// apiServer starts a fake API server. objects maps request paths to lists of objects. The server
// answers "not found" for the resource missing, and "forbidden" for the resource forbidden.
func apiServer(t *testing.T, missing, forbidden string, objects map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status := func(code int, reason string) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"no\nsuch luck"}`, reason, code)
		}
		switch {
		case missing != "" && strings.Contains(r.URL.Path, missing):
			status(http.StatusNotFound, "NotFound")
		case forbidden != "" && strings.Contains(r.URL.Path, forbidden):
			status(http.StatusForbidden, "Forbidden")
		case r.URL.Path == "/api":
			fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case r.URL.Path == "/apis":
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		case objects[r.URL.Path] != "":
			fmt.Fprint(w, objects[r.URL.Path])
		default:
			fmt.Fprint(w, list("v1", "List"))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// runAt runs the command with a kubeconfig for a server.
func runAt(t *testing.T, server string, args ...string) (code int, out, errOut string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code = app.Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr},
		append(args, "--kubeconfig", kubeconfig), func(string) (string, bool) { return "", false })
	return code, stdout.String(), stderr.String()
}

// TestServers checks the message and the exit code if the server lacks an API, or if the caller
// lacks a permission. The message is one line.
func TestServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		missing, forbidden string
		args               []string
		want               int
		wantOut, wantErr   string
	}{
		"a server without Reprieve":          {missing: "/reprieve.dev/", args: []string{"why", "a"}, want: 5, wantErr: "Reprieve is not installed in this cluster"},
		"without rights":                     {forbidden: "/pods", args: []string{"when", "a"}, want: 4, wantErr: "you may not list pods in all namespaces"},
		"without the right to Jobs":          {forbidden: "/jobs", args: []string{"protected"}, wantOut: "Nothing that runs is protected.", wantErr: "you may not list jobs.batch"},
		"without the right to events":        {forbidden: "/events", args: []string{"history"}, want: 4, wantErr: "you may not list events.events.k8s.io in namespace default"},
		"without the right to nodes":         {forbidden: "/nodes", args: []string{"why", "a"}, want: 3, wantErr: "pod default/a does not exist"},
		"nothing of that name":               {args: []string{"why", "job/a"}, want: 3, wantErr: "job default/a does not exist"},
		"nothing of that name, to follow":    {args: []string{"why", "podgroup/a", "--watch"}, want: 3, wantErr: "podgroup default/a does not exist"},
		"nothing of that name, and no right": {forbidden: "/events", args: []string{"why", "a"}, want: 4, wantErr: "you may not list events.events.k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, said := runAt(t, apiServer(t, c.missing, c.forbidden, nil), c.args...)
			if code != c.want || !strings.Contains(out, c.wantOut) {
				t.Errorf("exit code %d, want %d; it says %q, want %q", code, c.want, out, c.wantOut)
			}
			if !strings.Contains(said, c.wantErr) || c.wantErr == "" && said != "" || strings.Count(said, "\n") > 1 {
				t.Errorf("It says %q, want one line with %q", said, c.wantErr)
			}
		})
	}
}

// TestWhyByWhatMayBeSeen checks why for a caller without the permission to read nodes. The output
// has the conditions of the namespace's pods, and names the resources that the caller may not read.
func TestWhyByWhatMayBeSeen(t *testing.T) {
	t.Parallel()
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"a","uid":"a"},"spec":{"schedulerName":"reprieve-scheduler","containers":[{"name":"c"}]},
"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","lastTransitionTime":"2026-03-01T11:00:00Z","message":"no room"}]}}`
	server := apiServer(t, "", "/nodes", map[string]string{"/api/v1/namespaces/default/pods": list("v1", "PodList", pod)})
	code, out, errOut := runAt(t, server, "why", "a")
	want := "pod default/a: pending\nTold: pod default/a (PodScheduled, Unschedulable, since 2026-03-01T11:00:00Z): no room\n" +
		"Not seen: nodes, which you may not list, so nothing was decided; ask for the ClusterRole reprieve-planner.\n"
	if code != 0 || out != want || errOut != "" {
		t.Errorf("exit code %d, it says %q, %q; want %q", code, out, errOut, want)
	}
}
