package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
)

// TestRightWithdrawn removes the permission to read Jobs from a running scheduler. Then the pods of
// new Jobs must wait and report the cause, and running gangs must continue. After the permission is
// granted again, the waiting pods must run without a restart of the scheduler.
func TestRightWithdrawn(t *testing.T) {
	c := startClusterOf(t, render(t, deployPath(t)), map[string]int{"groups": 1}, playground.Options{})
	config := rest.AnonymousClientConfig(c.playground.RESTConfig())
	config.BearerToken = c.token(t, namespace, name)
	proxy := slowapi.Start(t, config)
	c.startPod(t, name+"-0", &deploymentOf(t, c.manifests).Spec.Template.Spec, configMapOf(t, c.manifests), proxy.Kubeconfig(t))
	// Stop the scheduler before the proxy ends. Otherwise it cannot renew its Lease and exits,
	// which the test would report as a crash.
	t.Cleanup(func() {
		if err := c.schedulers[0].Kill(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	process := c.schedulers[0].PID()

	before := c.gangJob(t, "before", 2)
	running := c.waitJob(t, before, 2)
	group := c.groupOf(t, before)
	if group == nil {
		t.Fatal("the first Job has no PodGroup")
	}

	c.setJobRights(t, nil)
	// The API server checks permissions only at the start of a watch. So make the scheduler start
	// its watches again.
	proxy.CutWatches()
	meanwhile := c.gangJob(t, "meanwhile", 3)
	c.waitJobHeld(t, meanwhile, 3, "Job meanwhile", "it may not list and watch jobs.batch, which its role has to allow")
	if c.groupOf(t, meanwhile) != nil {
		t.Error("a PodGroup is made for a Job that is not known")
	}
	if still := c.waitJob(t, before, 2); !slices.Equal(running, still) {
		t.Errorf("of the gang that runs there are %v, want %v", still, running)
	}

	c.setJobRights(t, []string{"list", "watch"})
	c.waitJob(t, meanwhile, 3)
	if pg := c.groupOf(t, meanwhile); pg == nil || pg.Spec.SchedulingPolicy.Gang.MinCount != 3 {
		t.Errorf("the group of the second Job is %+v", pg)
	}
	if still := c.waitJob(t, before, 2); !slices.Equal(running, still) {
		t.Errorf("of the gang that runs there are %v, want %v", still, running)
	}
	if pg := c.groupOf(t, before); pg == nil || pg.UID != group.UID {
		t.Errorf("the group of the first Job is made anew: %+v", pg)
	}
	if now := c.schedulers[0].PID(); now != process {
		t.Errorf("the scheduler is process %d, and has been %d", now, process)
	}
}

// gangJob creates a Job whose annotation requests a gang of count pods.
func (c *cluster) gangJob(t *testing.T, jobName string, count int32) *unstructured.Unstructured {
	t.Helper()
	template := newPod("", "groups", "").Spec
	template.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: meta(jobName)}
	job.Spec.Parallelism, job.Spec.Template.Spec = &count, template
	job.Annotations = map[string]string{v1alpha1.AnnotationGang: "true"}
	c.create(t, job)
	out := &unstructured.Unstructured{}
	out.SetName(job.Name)
	out.SetUID(job.UID)
	return out
}

// podsOfJob returns the pods of a Job that are not terminating.
func (c *cluster) podsOfJob(ctx context.Context, t *testing.T, job *unstructured.Unstructured) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	ofJob := client.MatchingLabels{batchv1.JobNameLabel: job.GetName()}
	if err := c.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), ofJob); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// waitJob waits until count pods of a Job run, and returns their sorted UIDs.
func (c *cluster) waitJob(t *testing.T, job *unstructured.Unstructured, count int) []types.UID {
	t.Helper()
	var out []types.UID
	eventually(t, "the pods of Job "+job.GetName()+" run", func(ctx context.Context) string {
		out = nil
		for _, pod := range c.podsOfJob(ctx, t, job) {
			if pod.Status.Phase == corev1.PodRunning {
				out = append(out, pod.UID)
			}
		}
		if len(out) != count {
			return fmt.Sprintf("%d run", len(out))
		}
		return ""
	})
	slices.Sort(out)
	return out
}

// waitJobHeld waits until count pods of a Job have a condition whose message contains all the
// words, and one of them has an event. The pods must not have a node or report another cause.
func (c *cluster) waitJobHeld(t *testing.T, job *unstructured.Unstructured, count int, words ...string) {
	t.Helper()
	const reason = "OwnerUnknown"
	lacks := func(message string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(message, word) })
	}
	eventually(t, "the pods of Job "+job.GetName()+" say why they wait", func(ctx context.Context) string {
		said, events := 0, 0
		for _, pod := range c.podsOfJob(ctx, t, job) {
			if pod.Spec.NodeName != "" {
				t.Fatalf("%s has a node", pod.Name)
			}
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodScheduled && condition.Reason == reason && !lacks(condition.Message) {
					said++
				}
			}
			for _, e := range c.eventsOn(ctx, t, "Pod", pod.Name, reason) {
				if lacks(e.Note) {
					t.Fatalf("%s is told %q", pod.Name, e.Note)
				}
				events++
			}
		}
		if said != count || events == 0 {
			return fmt.Sprintf("%d say it, with %d events", said, events)
		}
		return ""
	})
}

// setJobRights sets the verbs that the scheduler's role permits for Jobs. It waits until the API
// server applies the change.
func (c *cluster) setJobRights(t *testing.T, verbs []string) {
	t.Helper()
	var role rbacv1.ClusterRole
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &role); err != nil {
		t.Fatal(err)
	}
	isJobs := func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, batchv1.GroupName) && slices.Contains(rule.Resources, "jobs")
	}
	role.Rules = slices.DeleteFunc(role.Rules, isJobs)
	if len(verbs) > 0 {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{batchv1.GroupName}, Resources: []string{"jobs"}, Verbs: verbs})
	}
	if err := c.Update(t.Context(), &role); err != nil {
		t.Fatal(err)
	}
	eventually(t, fmt.Sprintf("the role allows %q on Jobs", verbs), func(ctx context.Context) string {
		for _, verb := range []string{"list", "watch"} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: account, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: batchv1.GroupName, Resource: "jobs"},
			}}
			if err := c.Create(ctx, review); err != nil {
				return err.Error()
			}
			if review.Status.Allowed != slices.Contains(verbs, verb) {
				return fmt.Sprintf("%s is allowed: %t", verb, review.Status.Allowed)
			}
		}
		return ""
	})
}
