package command

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// oldest is the oldest supported minor version of Kubernetes.
const oldest = "1.34"

// TestOlderCluster runs the scheduler on a cluster with the oldest supported version of Kubernetes.
// The scheduler must place a pod, although the API server lacks APIs that the scheduler library
// reads.
func TestOlderCluster(t *testing.T) {
	t.Parallel()
	s := stage.New(t, playground.Options{
		NodeGroups: []playground.NodeGroup{{Count: 1, Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}},
		ExtraArgs:  map[string][]string{playground.APIServer: {"--emulated-version=" + oldest}},
	})
	pod := stage.NewPod(s.Namespace, "pod", "", 1)
	pod.Spec.NodeSelector = nil
	s.Create(pod)
	s.Runs("pod", 1)
	log, err := os.ReadFile(s.Run.Component(playground.Scheduler).LogPath())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "serves no DeviceTaintRules; the feature is off") {
		t.Error("the log does not say what is off")
	}
}
