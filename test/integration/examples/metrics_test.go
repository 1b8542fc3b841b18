package examples

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestMetrics runs a scheduler with the command in docs/troubleshooting.md. It requests the metrics
// with the ClusterRole in deploy/, which must succeed, and without the role, which must fail.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := stage.New(t, playground.Options{Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler}})
	root := playgroundtest.ModuleRoot(t)
	roles, err := os.ReadFile(filepath.Join(root, "deploy", "clusterroles-users.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.ApplyText(string(roles))
	s.Create(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "reader"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "stranger"}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reprieve-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "reader"}},
		})
	address := documentedScheduler(t, s)
	// The scheduler has a self-signed certificate. Skip the verification, like curl -k.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // See above.
	t.Cleanup(client.CloseIdleConnections)
	for account, want := range map[string]int{"reader": http.StatusOK, "stranger": http.StatusForbidden} {
		token, err := s.Kube.CoreV1().ServiceAccounts(s.Namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// Try again for some time: the scheduler needs time to start, and caches a denial for 10
		// seconds.
		s.Eventually("metrics for "+account, func(ctx context.Context) string {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+token.Status.Token)
			response, err := client.Do(request)
			if err != nil {
				return err.Error()
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			switch {
			case err != nil:
				return err.Error()
			case response.StatusCode != want:
				return fmt.Sprintf("status %d, want %d", response.StatusCode, want)
			case want == http.StatusOK && !bytes.Contains(body, []byte("\nreprieve_")):
				return "none of Reprieve's is among them"
			}
			return ""
		})
	}
}

// documentedScheduler runs the command in docs/troubleshooting.md until the test ends. It replaces
// the port and the path of the kubeconfig. It returns the address of the scheduler.
func documentedScheduler(t *testing.T, s *stage.Stage) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n$ bin/reprieve-scheduler ")
	line, _, _ := strings.Cut(rest, "\n")
	port := "--secure-port=10259"
	if !found || !strings.Contains(line, port) || !strings.Contains(line, "playground.kubeconfig.scheduler") {
		t.Fatalf("docs/troubleshooting.md has no command to have metrics with: %q", line)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It is closed at once.
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, free, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	line = strings.NewReplacer(port, "--secure-port="+free, "playground.kubeconfig.scheduler", s.Run.SchedulerKubeconfig()).Replace(line)
	const binary = "reprieve-scheduler"
	scheduler := exec.CommandContext(t.Context(), filepath.Join(playgroundtest.BinDir(t, binary), binary), strings.Fields(line)...)
	var log bytes.Buffer
	scheduler.Stdout, scheduler.Stderr = &log, &log
	scheduler.Env = []string{"HOME=" + t.TempDir()}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The end of the test's context has killed the scheduler, so ignore the error.
		_ = scheduler.Wait()
		if t.Failed() {
			t.Logf("the scheduler says:\n%s", log.String())
		}
	})
	return address
}
