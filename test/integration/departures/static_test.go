package departures

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestStaticPods checks that a mirror pod of a static pod is never evicted, even if its priority is
// low. The preemptor's message must name the rule. Other pods must be evicted as usual.
func TestStaticPods(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.AddNodes(4, "a")
	mirror := stage.NewPod(e.Namespace, "mirror", "low", 4)
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	mirror.Spec.NodeName, mirror.Spec.NodeSelector = e.NodeName("a"), nil
	e.Create(mirror)
	e.Runs("mirror", 1)
	e.urgent(1, false)
	e.WaitsSaying("urgent-0", "1 static pod stays (StaticPod)")
	e.AddNodes(4, "b")
	e.Runs("urgent", 1)
	e.Never("the static pod goes", func(ctx context.Context) string {
		if going := e.Terminating(ctx); len(going) > 0 {
			return fmt.Sprintf("%v go", going)
		}
		return ""
	})
}
