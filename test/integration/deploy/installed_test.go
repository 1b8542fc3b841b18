package deploy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestInstalled runs the scheduler with the permissions of the manifests and checks its effects.
func TestInstalled(t *testing.T) {
	c := startCluster(t)
	c.startScheduler(t, name+"-0")
	c.create(t, priorityClass(low, lowValue), priorityClass(high, highValue))
	// The subtests use separate nodes, so they run concurrently. The checks after this group need
	// the results of all subtests.
	t.Run("work", func(t *testing.T) {
		for what, test := range map[string]func(*testing.T, *cluster){
			"the pods are admitted":                 testPodsAdmitted,
			"it leads":                              testLeads,
			"a gang takes room from a gang":         testGangs,
			"a pod takes room from a tree":          testTrees,
			"a pod takes room from a pod":           testPods,
			"a budget does not stand in the way":    testBudget,
			"a pod takes a port from a pod":         testPorts,
			"volumes are bound":                     testVolumes,
			"devices are allocated":                 testDevices,
			"queues have a status":                  testQueues,
			"a queue takes back what is its own":    testReclaim,
			"a class is left alone for a time":      testToleration,
			"a pod that does not fit is told again": testRetry,
			"the endpoints":                         testEndpoints,
			"its share of the API server":           testFlow,
			"the admission policies":                testAdmission,
			"what users may do":                     testUserRoles,
			"the system's classes":                  testSystemClasses,
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				test(t, c)
			})
		}
	})
	t.Run("alerts and dashboard go by what there is", func(t *testing.T) { testMonitored(t, c) })
	t.Run("the standby is ready", func(t *testing.T) { c.startScheduler(t, name+"-1") })
	t.Run("the standby takes over", func(t *testing.T) { testTakeover(t, c) })
	t.Run("no permission is unused", func(t *testing.T) { testUnused(t, c) })
	t.Run("no permission is missing", func(t *testing.T) { testMissing(t, c) })
}

// testPodsAdmitted checks that the API server admits the Pods of the Deployment. The namespace has
// a Pod Security level and a quota for the priority class.
func testPodsAdmitted(t *testing.T, c *cluster) {
	eventually(t, "the Pods of the Deployment", func(ctx context.Context) string {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
		if len(pods.Items) != 2 {
			return fmt.Sprintf("there are %d", len(pods.Items))
		}
		for i := range pods.Items {
			spec := &pods.Items[i].Spec
			if got, want := ptr.Deref(spec.Priority, 0), int32(2000000000); got != want {
				t.Errorf("the priority is %d, want %d", got, want)
			}
			if spec.SchedulerName != corev1.DefaultSchedulerName || spec.NodeName != "" {
				t.Errorf("scheduler %s, node %q: want the default scheduler, which does not run", spec.SchedulerName, spec.NodeName)
			}
		}
		return ""
	})
}

func testLeads(t *testing.T, c *cluster) {
	if c.leader(t) == "" {
		t.Error("nobody holds the lease")
	}
	eventually(t, "event of the election", func(ctx context.Context) string {
		var events corev1.EventList
		if err := c.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
		for i := range events.Items {
			if events.Items[i].Reason == "LeaderElection" {
				return ""
			}
		}
		return "there is none"
	})
}

// leader returns the identity in the Lease, or "" if no scheduler holds it.
func (c *cluster) leader(t *testing.T) string {
	t.Helper()
	var lease coordinationv1.Lease
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &lease); err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// testEndpoints sends requests to the scheduler's HTTP endpoints: without credentials, like a
// kubelet, and with the tokens of ServiceAccounts with and without permissions.
func testEndpoints(t *testing.T, c *cluster) {
	const scraper, auditor, stranger = "scraper", "auditor", "stranger"
	tokens := map[string]string{"": "", "nonsense": "nonsense"}
	for account, role := range map[string]string{scraper: metricsRole, auditor: decisionsRole, stranger: ""} {
		c.create(t, &corev1.ServiceAccount{ObjectMeta: meta(account)})
		tokens[account] = c.token(t, metav1.NamespaceDefault, account)
		if role != "" {
			c.create(t, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: account},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceDefault, Name: account}},
			})
		}
	}
	transport := c.transport(t)
	for _, tc := range []struct {
		path, as string
		want     int
	}{
		{path: "/livez", want: http.StatusOK},
		{path: "/readyz", want: http.StatusOK},
		{path: "/metrics", want: http.StatusForbidden},
		{path: "/metrics", as: stranger, want: http.StatusForbidden},
		{path: "/metrics", as: auditor, want: http.StatusForbidden},
		{path: "/metrics", as: scraper, want: http.StatusOK},
		{path: "/debug/reprieve/decisions", want: http.StatusForbidden},
		{path: "/debug/reprieve/decisions", as: "nonsense", want: http.StatusUnauthorized},
		{path: "/debug/reprieve/decisions", as: stranger, want: http.StatusForbidden},
		{path: "/debug/reprieve/decisions", as: scraper, want: http.StatusForbidden},
		{path: "/debug/reprieve/decisions", as: auditor, want: http.StatusOK},
		{path: "/debug/reprieve/snapshot", want: http.StatusForbidden},
		{path: "/debug/reprieve/snapshot", as: "nonsense", want: http.StatusUnauthorized},
		{path: "/debug/reprieve/snapshot", as: scraper, want: http.StatusForbidden},
		{path: "/debug/reprieve/snapshot", as: auditor, want: http.StatusOK},
	} {
		// Try again for some time: the scheduler caches a denial for 10 seconds, and the API server
		// may not have the new role yet.
		eventually(t, tc.path+" as "+tc.as, func(ctx context.Context) string {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.schedulers[0].URL()+tc.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if token := tokens[tc.as]; token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				return err.Error()
			}
			if err := response.Body.Close(); err != nil {
				return err.Error()
			}
			if response.StatusCode != tc.want {
				return fmt.Sprintf("status %d, want %d", response.StatusCode, tc.want)
			}
			return ""
		})
	}
}

// transport returns an HTTP transport that trusts the playground's certificate authority, which has
// signed the certificates of the schedulers.
func (c *cluster) transport(t *testing.T) *http.Transport {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.playground.RESTConfig().CAData)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// testUnused checks that the scheduler has used each of its permissions.
func testUnused(t *testing.T, c *cluster) {
	granted := append(permissions(t, c.manifests), builtIn()...)
	minor := stage.Kubernetes(t).Minor
	granted = slices.DeleteFunc(granted, func(p permission) bool { return !usedIn(p, minor) })
	eventually(t, "permissions nobody used", func(context.Context) string {
		var left []string
		for _, p := range unused(granted, readAudit(t, c.auditLog)) {
			left = append(left, p.String())
		}
		return strings.Join(left, "; ")
	})
}

// extendedResources is the first minor version of Kubernetes with extended resources that a
// DeviceClass provides.
const extendedResources = 36

// usedIn reports whether the scheduler needs a permission on a minor version of Kubernetes.
func usedIn(p permission, minor uint) bool {
	switch p.resource + "." + p.group {
	case "devicetaintrules.resource.k8s.io":
		return minor >= 37
	case "resourceclaims.resource.k8s.io":
		return p.verb != "create" || minor >= extendedResources
	case "podgroups.scheduling.k8s.io", "podgroups/status.scheduling.k8s.io":
		return minor >= 36
	case "workloads.scheduling.k8s.io":
		return minor == 35
	}
	return true
}

// testMissing checks that no request of the scheduler was rejected because of a missing permission.
func testMissing(t *testing.T, c *cluster) {
	for _, request := range refused(readAudit(t, c.auditLog)) {
		t.Errorf("the API server refused %s", request)
	}
	for _, scheduler := range c.schedulers {
		for _, line := range complaints(t, scheduler.LogPath()) {
			t.Errorf("the log of %s: %s", scheduler.Name(), line)
		}
	}
}
