package app

import "testing"

// TestParseSubject: kinds are named in the forms that kubectl takes.
func TestParseSubject(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"a": "pod ns/a", "po/a": "pod ns/a", "pod/a": "pod ns/a", "pods/a": "pod ns/a", "Pod/a": "pod ns/a", "pods.v1./a": "pod ns/a",
		"job/a": "job ns/a", "jobs/a": "job ns/a", "job.batch/a": "job ns/a", "jobs.v1.batch/a": "job ns/a",
		"pg/a": "podgroup ns/a", "PG/a": "podgroup ns/a", "podgroup/a": "podgroup ns/a", "podgroups/a": "podgroup ns/a",
		"pg.reprieve.dev/a": "podgroup ns/a", "podgroup.reprieve.dev/a": "podgroup ns/a", "podgroups.reprieve.dev/a": "podgroup ns/a",
		"podgroups.v1alpha1.reprieve.dev/a": "podgroup ns/a",
		"":                                  "", "pg/": "", "pg/a/b": "", "/a": "", "deploy/a": "", "deployments.apps/a": "", "queue/a": "",
		"podgroups.scheduling.volcano.sh/a": "", "pods.batch/a": "", "jobs.v1beta1.batch/a": "",
	} {
		got := ""
		about, err := parseSubject(arg, "ns")
		if err == nil {
			got = about.name()
		}
		if got != want || err != nil && codeOf(err) != exitUsage {
			t.Errorf("%q is %q, error %v; want %q", arg, got, err, want)
		}
	}
}
