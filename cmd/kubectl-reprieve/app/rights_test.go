package app_test

import (
	"strings"
	"testing"
)

// TestRemediesByRights checks the remark on remedies that change nodes. They need an administrator
// unless the caller has the permission to change nodes.
func TestRemediesByRights(t *testing.T) {
	t.Parallel()
	const (
		node    = `{"metadata":{"name":"node-0"},"spec":{"unschedulable":true,"taints":[{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"}}}`
		pod     = `{"metadata":{"name":"a","namespace":"default","uid":"a"},"spec":{"schedulerName":"reprieve-scheduler","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`
		reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	)
	for name, c := range map[string]struct {
		forbidden, review string
		administrators    bool
	}{
		"a caller who may":         {review: `{"status":{"allowed":true}}`},
		"a caller who may not":     {review: `{"status":{"allowed":false}}`, administrators: true},
		"a server without reviews": {forbidden: reviews, administrators: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			review := strings.Replace(c.review, "{", `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1",`, 1)
			server := apiServer(t, "", c.forbidden, map[string]string{
				"/api/v1/nodes": list("v1", "NodeList", node), "/api/v1/pods": list("v1", "PodList", pod), reviews: review,
			})
			code, out, errOut := runAt(t, server, "why", "a")
			if code != 0 || !strings.Contains(out, "Would help: uncordon [node-0]") {
				t.Fatalf("exit code %d, %q, %q", code, out, errOut)
			}
			if got := strings.Contains(out, "takes an administrator"); got != c.administrators {
				t.Errorf("It says %q; takes an administrator: %v, want %v", out, got, c.administrators)
			}
		})
	}
}
