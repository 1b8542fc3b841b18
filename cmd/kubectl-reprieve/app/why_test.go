package app_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
)

// walk returns a file of testdata/why, which has the example of docs/why.md.
func walk(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "why", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWhy checks answers about past preemptions, with --not and with --with, and the errors of
// invalid questions.
func TestWhy(t *testing.T) {
	t.Parallel()
	decisions := walk(t, "decisions.jsonl")
	files := map[string]string{
		"cluster.json": walk(t, "cluster.json"), "log.jsonl": decisions, "other.yaml": walk(t, "other.yaml"), "report.yaml": walk(t, "report.yaml"),
		"empty.jsonl": "", "cut.jsonl": decisions[:100], "part.jsonl": decisions + decisions[:100], "newer.jsonl": strings.ReplaceAll(decisions, "decision/v1", "decision/v9"),
		"newer.json": strings.Replace(walk(t, "cluster.json"), "snapshot.reprieve.dev/v2", "snapshot.reprieve.dev/v99", 1), "cut.json": walk(t, "cluster.json")[:5000],
		"group.yaml":   "apiVersion: reprieve.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: fresh}\nspec: {schedulingPolicy: {gang: {minCount: 1}}}\n",
		"service.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
	}
	for name, c := range map[string]struct {
		args  []string
		input string
		want  int
		// wantOut are texts that the output must contain, and wantNot are texts that it must not
		// contain. wantErr is a text that the line with the error must contain.
		wantOut, wantNot []string
		wantErr          string
	}{
		"who took it, and what stayed": {
			args:    []string{"why", "podgroup/batch", "--log", "log.jsonl"},
			wantOut: []string{"by podgroup default/urgent", "rule Reclaim: preempted by PodGroup default/urgent", "Stayed: pod default/notebook (priority 200 on node-", "no cheaper choice"},
		},
		"of a pod that went with its gang": {
			args: []string{"why", "batch-0", "--log", "log.jsonl"}, wantOut: []string{"pod default/batch-0: gone", "Taken: podgroup default/batch by podgroup default/urgent", "Stayed: pod default/notebook"},
		},
		"of a pod that has gone": {args: []string{"why", "batch-9", "--log", "log.jsonl"}, want: 3, wantErr: "pod default/batch-9 does not exist, and nothing tells of its preemption"},
		"with a broken line":     {args: []string{"why", "podgroup/batch", "--log", "part.jsonl"}, wantOut: []string{"Stayed: pod default/notebook"}},
		"from standard input":    {args: []string{"why", "podgroup/batch", "--log", "-"}, input: decisions, wantOut: []string{"Stayed: pod default/notebook"}},
		"the same record twice":  {args: []string{"why", "podgroup/batch", "--log", "log.jsonl", "--log", "part.jsonl", "-o", "json"}, wantOut: []string{`"source": "record"`}},
		"why not that one": {
			args: []string{"why", "podgroup/batch", "--not", "notebook", "--log", "log.jsonl"}, wantOut: []string{"Stayed: pod default/notebook"}, wantNot: []string{"etl"},
		},
		"why not the pods of a Job": {
			args: []string{"why", "podgroup/batch", "--not", "job/etl", "--log", "log.jsonl"}, wantOut: []string{"Stayed: pod default/etl-"}, wantNot: []string{"notebook"},
		},
		"why not one that is not named":    {args: []string{"why", "podgroup/batch", "--not", "other", "--log", "log.jsonl"}, wantOut: []string{"the record has nothing about pod default/other"}},
		"why not, of what was not taken":   {args: []string{"why", "podgroup/urgent", "--not", "other", "--log", "log.jsonl"}, wantOut: []string{"Took: podgroup default/batch", "no source reports that podgroup default/urgent was evicted"}},
		"why not work of another kind":     {args: []string{"why", "podgroup/urgent", "--not", "deploy/y", "--log", "log.jsonl"}, want: 2, wantErr: `error: --not "deploy/y": ask about POD or KIND/NAME, with the kind pod, job, podgroup, compositepodgroup, jobset`},
		"why not, before all else":         {args: []string{"why", "podgroup/urgent", "--not", "deploy/y", "--log", "no.jsonl", "--server", "https://127.0.0.1:1"}, want: 2, wantErr: `error: --not "deploy/y"`},
		"a PodGroup, for short":            {args: []string{"why", "pg/urgent"}, wantOut: []string{"podgroup default/urgent: running"}},
		"why not, without a record":        {args: []string{"why", "podgroup/batch", "--not", "notebook"}, want: 2, wantErr: "--not goes by the scheduler's record"},
		"a record that is empty":           {args: []string{"why", "podgroup/batch", "--log", "empty.jsonl"}, want: 2, wantErr: "empty.jsonl is empty"},
		"a record that is cut":             {args: []string{"why", "podgroup/batch", "--log", "cut.jsonl"}, want: 2, wantErr: "has no decision in it"},
		"a record of another version":      {args: []string{"why", "podgroup/batch", "--log", "newer.jsonl"}, want: 2, wantErr: `its schema is "reprieve.dev/decision/v9"`},
		"a record that there is not":       {args: []string{"why", "podgroup/batch", "--log", "no.jsonl"}, want: 2, wantErr: "no.jsonl"},
		"two records":                      {args: []string{"why", "podgroup/batch", "--log", "log.jsonl", "--scheduler", "https://127.0.0.1:1"}, want: 2, wantErr: "name one of the two"},
		"a scheduler that does not answer": {args: []string{"why", "podgroup/batch", "--scheduler", "https://127.0.0.1:1", "--server", "https://127.0.0.1:1"}, want: 5, wantErr: "127.0.0.1:1"},
		"a snapshot of another version":    {args: []string{"why", "later", "--snapshot", "newer.json"}, want: 2, wantErr: "newer.json: the snapshot is of version"},
		"a snapshot that is cut":           {args: []string{"when", "later", "--snapshot", "cut.json"}, want: 2, wantErr: "cut.json: the snapshot is cut off"},
		"a snapshot that does not change":  {args: []string{"why", "later", "--watch"}, want: 2, wantErr: "--watch follows a cluster"},
		"what there is not":                {args: []string{"why", "nothing"}, want: 3, wantErr: "pod default/nothing does not exist"},
		"a kind that there is not":         {args: []string{"why", "queue/team-a"}, want: 2, wantErr: "ask about POD or KIND/NAME"},
		"other objects that make pods":     {args: []string{"why", "later", "--with", "report.yaml"}, want: 2, wantErr: "--with: job/report makes pods; ask plan about it"},
		"other objects of no account":      {args: []string{"why", "later", "--with", "service.yaml"}, want: 2, wantErr: "no decision depends on ConfigMap/settings"},
		"other objects that there are not": {args: []string{"when", "later", "--with", "no.yaml"}, want: 2, wantErr: "no.yaml"},
		"a group without pods":             {args: []string{"why", "podgroup/fresh", "--with", "group.yaml"}, wantOut: []string{"podgroup default/fresh: no pods\n"}},
		"a Job, by its name":               {args: []string{"why", "job/etl"}, wantOut: []string{"job default/etl: running\n"}},
		"work that has its place":          {args: []string{"when", "podgroup/urgent"}, wantOut: []string{"podgroup default/urgent: has its place already, 2 pods on nodes since 20"}},
		"a pod that has its place":         {args: []string{"when", "notebook", "-o", "json"}, wantOut: []string{`"pods": 1`, `"kind": "When"`}},
		"with other objects":               {args: []string{"when", "podgroup/train", "--with", "other.yaml"}, wantOut: []string{"gang of 3 fits on 3 nodes once 2 pods are gone"}},
		"what is protected": {
			args: []string{"protected", "podgroup/urgent"}, wantOut: []string{"podgroup default/urgent", "MinRuntime"}, wantNot: []string{"notebook"},
		},
		"what is not protected":    {args: []string{"protected", "notebook"}, wantOut: []string{"pod default/notebook: nothing protects it but its priority"}},
		"what does not run":        {args: []string{"protected", "later"}, want: 3, wantErr: "pod default/later has no running pod"},
		"what there is not either": {args: []string{"protected", "nothing"}, want: 3, wantErr: "pod default/nothing does not exist"},
		"a name and all":           {args: []string{"protected", "notebook", "-A"}, want: 2, wantErr: "do not go together"},
		"two names":                {args: []string{"protected", "notebook", "later"}, want: 2, wantErr: "takes one argument at most"},
		"history of a queue":       {args: []string{"history", "--queue", "team-b", "--log", "log.jsonl"}, wantOut: []string{"podgroup default/batch"}},
		"history of another":       {args: []string{"history", "--queue", "team-a", "--log", "log.jsonl"}, wantOut: []string{"Nothing tells of any preemption."}},
		"history by a preemptor":   {args: []string{"history", "--preemptor", "podgroup/urgent"}, wantOut: []string{"podgroup default/batch"}},
		"history by another":       {args: []string{"history", "--preemptor", "urgent"}, wantOut: []string{"Nothing tells of any preemption."}},
		"history since":            {args: []string{"history", "--since", "1s"}, wantOut: []string{"Nothing tells of any preemption."}},
		"history of all the time":  {args: []string{"history", "--since", "1h", "-o", "wide"}, wantOut: []string{"podgroup default/batch"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := c.args
			if !strings.Contains(strings.Join(args, " "), "--snapshot") && !strings.Contains(strings.Join(args, " "), "--server") {
				args = append(args, "--snapshot", "cluster.json")
			}
			code, out, errOut := run(t, files, c.input, args...)
			if code != c.want {
				t.Errorf("exit code %d, want %d; it says %q, %q", code, c.want, out, errOut)
			}
			checkWords(t, out, c.wantOut, c.wantNot)
			if !strings.Contains(errOut, c.wantErr) || c.wantErr == "" && errOut != "" || strings.Count(errOut, "\n") > 1 {
				t.Errorf("It says %q, want one line with %q", errOut, c.wantErr)
			}
		})
	}
}

// TestCompletion checks that shells get the names of existing work.
func TestCompletion(t *testing.T) {
	t.Parallel()
	snapshot, sets := filepath.Join("testdata", "why", "cluster.json"), filepath.Join(t.TempDir(), "sets.json")
	if err := os.WriteFile(sets, []byte(families()), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"pods, and what else there may be": {[]string{"why", "--snapshot", snapshot, ""}, "job/ later notebook podgroup/ probe train-0 train-1 train-2 urgent-0 urgent-1"},
		"pods":                             {[]string{"why", "--snapshot", snapshot, "no"}, "notebook"},
		"gangs":                            {[]string{"when", "--snapshot", snapshot, "podgroup/"}, "podgroup/batch podgroup/train podgroup/urgent"},
		"Jobs":                             {[]string{"protected", "--snapshot", snapshot, "job/"}, "job/etl"},
		"gangs, for short":                 {[]string{"why", "--snapshot", snapshot, "pg/tr"}, "pg/train"},
		"pods, with their kind":            {[]string{"why", "--snapshot", snapshot, "po/no"}, "po/notebook"},
		"kinds that are rare":              {[]string{"why", "--snapshot", snapshot, "jobs"}, "jobset/"},
		"of a kind that is rare":           {[]string{"why", "--snapshot", sets, "jobsets/t"}, "jobsets/train"},
		"of a rare kind, for short":        {[]string{"why", "--snapshot", sets, "lws/"}, "lws/both lws/calm lws/serve"},
		"of a kind that there is not":      {[]string{"why", "--snapshot", snapshot, "deploy/"}, ""},
		"nothing more":                     {[]string{"why", "--snapshot", snapshot, "later", ""}, ""},
		"of a snapshot that there is not":  {[]string{"why", "--snapshot", "no.json", "podgroup/"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: io.Discard}
			code := app.Run(t.Context(), streams, append([]string{"__complete"}, c.args...), func(string) (string, bool) { return "", false })
			// The last line is an instruction for the shell, and not a completion.
			got := strings.Fields(out.String())
			got = slices.DeleteFunc(got, func(word string) bool { return strings.HasPrefix(word, ":") || strings.HasPrefix(word, "etl-") })
			if code != 0 || strings.Join(got, " ") != c.want {
				t.Errorf("exit code %d, %q, want %q", code, got, c.want)
			}
		})
	}
}
