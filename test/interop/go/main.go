// The real Go client against a member: puts, gets, transactions, and a million keys paged at one revision while
// others write and compact. Output is TAP.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const pageKeys = 2000

type test struct {
	name string
	run  func(context.Context, *clientv3.Client) error
}

func keyCount() int {
	if n, err := strconv.Atoi(os.Getenv("KEYS")); err == nil {
		return n
	}
	return 1000000
}

func putAndGet(ctx context.Context, c *clientv3.Client) error {
	put, err := c.Put(ctx, "go/a", "1", clientv3.WithPrevKV())
	if err != nil {
		return err
	}
	if put.PrevKv != nil {
		return fmt.Errorf("expected no previous pair, seen %v", put.PrevKv)
	}
	again, err := c.Put(ctx, "go/a", "2", clientv3.WithPrevKV())
	if err != nil {
		return err
	}
	if string(again.PrevKv.Value) != "1" || again.Header.Revision != put.Header.Revision+1 {
		return fmt.Errorf("expected previous value 1 and revision %d, seen %q and %d", put.Header.Revision+1,
			again.PrevKv.Value, again.Header.Revision)
	}
	get, err := c.Get(ctx, "go/a")
	if err != nil {
		return err
	}
	if len(get.Kvs) != 1 || string(get.Kvs[0].Value) != "2" || get.Kvs[0].Version != 2 {
		return fmt.Errorf("expected one pair with value 2 and version 2, seen %v", get.Kvs)
	}
	old, err := c.Get(ctx, "go/a", clientv3.WithRev(put.Header.Revision))
	if err != nil {
		return err
	}
	if string(old.Kvs[0].Value) != "1" {
		return fmt.Errorf("expected the old value 1, seen %q", old.Kvs[0].Value)
	}
	del, err := c.Delete(ctx, "go/", clientv3.WithPrefix(), clientv3.WithPrevKV())
	if err != nil {
		return err
	}
	if del.Deleted != 1 || len(del.PrevKvs) != 1 {
		return fmt.Errorf("expected one deleted pair, seen %d", del.Deleted)
	}
	return nil
}

func wantErrors(ctx context.Context, c *clientv3.Client) error {
	_, err := c.Get(ctx, "")
	if !errors.Is(err, rpctypes.ErrEmptyKey) {
		return fmt.Errorf("expected %v, seen %v", rpctypes.ErrEmptyKey, err)
	}
	_, err = c.Get(ctx, "x", clientv3.WithRev(1<<40))
	if !errors.Is(err, rpctypes.ErrFutureRev) {
		return fmt.Errorf("expected %v, seen %v", rpctypes.ErrFutureRev, err)
	}
	_, err = c.Put(ctx, "x", string(make([]byte, 1600000)))
	if !errors.Is(err, rpctypes.ErrRequestTooLarge) {
		return fmt.Errorf("expected %v, seen %v", rpctypes.ErrRequestTooLarge, err)
	}
	_, err = c.Txn(ctx).Then(clientv3.OpPut("x", "1"), clientv3.OpPut("x", "2")).Commit()
	if !errors.Is(err, rpctypes.ErrDuplicateKey) {
		return fmt.Errorf("expected %v, seen %v", rpctypes.ErrDuplicateKey, err)
	}
	short, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	if _, err = c.Get(short, "x"); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("expected %v, seen %v", context.DeadlineExceeded, err)
	}
	return nil
}

// Ten counters, each raised by compare-and-swap from several goroutines, must lose no step.
func transactions(ctx context.Context, c *clientv3.Client) error {
	const writers, rounds = 8, 50
	var failed atomic.Value
	var group sync.WaitGroup
	for w := 0; w < writers; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < rounds; i++ {
				if err := increment(ctx, c, "txn/counter"); err != nil {
					failed.Store(err)
					return
				}
			}
		}()
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return err.(error)
	}
	get, err := c.Get(ctx, "txn/counter")
	if err != nil {
		return err
	}
	if want := strconv.Itoa(writers * rounds); string(get.Kvs[0].Value) != want {
		return fmt.Errorf("expected counter %s, seen %s", want, get.Kvs[0].Value)
	}
	nested, err := c.Txn(ctx).If(clientv3.Compare(clientv3.Value("txn/counter"), ">", "0")).
		Then(clientv3.OpPut("txn/n", "1"), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("txn/m", "2"),
			clientv3.OpGet("txn/n")}, nil)).Commit()
	if err != nil {
		return err
	}
	inner := nested.Responses[1].GetResponseTxn()
	if !nested.Succeeded || !inner.Succeeded || string(inner.Responses[1].GetResponseRange().Kvs[0].Value) != "1" {
		return fmt.Errorf("expected the inner range to see the outer put, seen %v", nested.Responses)
	}
	return nil
}

func increment(ctx context.Context, c *clientv3.Client, key string) error {
	for {
		get, err := c.Get(ctx, key)
		if err != nil {
			return err
		}
		revision, value := int64(0), 0
		if len(get.Kvs) == 1 {
			revision = get.Kvs[0].ModRevision
			if value, err = strconv.Atoi(string(get.Kvs[0].Value)); err != nil {
				return err
			}
		}
		done, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, strconv.Itoa(value+1))).Commit()
		if err != nil {
			return err
		}
		if done.Succeeded {
			return nil
		}
	}
}

func millionKey(i int) string { return fmt.Sprintf("page/%08d", i) }

func load(ctx context.Context, c *clientv3.Client, keys int) error {
	const each = 100
	work := make(chan int, 64)
	var failed atomic.Value
	var group sync.WaitGroup
	for w := 0; w < 32; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for start := range work {
				ops := make([]clientv3.Op, 0, each)
				for i := start; i < start+each && i < keys; i++ {
					ops = append(ops, clientv3.OpPut(millionKey(i), strconv.Itoa(i)))
				}
				if _, err := c.Txn(ctx).Then(ops...).Commit(); err != nil {
					failed.Store(err)
				}
			}
		}()
	}
	for start := 0; start < keys; start += each {
		work <- start
	}
	close(work)
	group.Wait()
	if err := failed.Load(); err != nil {
		return err.(error)
	}
	return nil
}

// disturb overwrites and deletes paged keys, and compacts up to the pinned revision, until it is told to stop.
func disturb(ctx context.Context, c *clientv3.Client, keys int, pinned int64, stop <-chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		if _, err := c.Put(ctx, millionKey(i*7919%keys), "changed"); err != nil {
			return err
		}
		if _, err := c.Delete(ctx, millionKey(i*104729%keys)); err != nil {
			return err
		}
		if i%200 == 100 {
			if _, err := c.Compact(ctx, pinned); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
				return err
			}
		}
	}
}

func pages(ctx context.Context, c *clientv3.Client) error {
	keys := keyCount()
	if err := load(ctx, c, keys); err != nil {
		return err
	}
	first, err := c.Get(ctx, "page/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if first.Count != int64(keys) {
		return fmt.Errorf("expected %d keys, seen %d", keys, first.Count)
	}
	pinned := first.Header.Revision
	stop, disturbed := make(chan struct{}), make(chan error, 1)
	go func() { disturbed <- disturb(ctx, c, keys, pinned, stop) }()
	err = page(ctx, c, keys, pinned)
	close(stop)
	return errors.Join(err, <-disturbed)
}

func page(ctx context.Context, c *clientv3.Client, keys int, pinned int64) error {
	next, seen := "page/", 0
	for {
		get, err := c.Get(ctx, next, clientv3.WithRange("page0"), clientv3.WithLimit(pageKeys), clientv3.WithRev(pinned))
		if err != nil {
			return fmt.Errorf("after %d keys: %w", seen, err)
		}
		for _, kv := range get.Kvs {
			if string(kv.Key) != millionKey(seen) || !bytes.Equal(kv.Value, strconv.AppendInt(nil, int64(seen), 10)) {
				return fmt.Errorf("expected key %d as it was, seen %q = %q", seen, kv.Key, kv.Value)
			}
			seen++
		}
		if !get.More {
			break
		}
		next = string(get.Kvs[len(get.Kvs)-1].Key) + "\x00"
	}
	if seen != keys {
		return fmt.Errorf("expected %d keys in all pages, seen %d", keys, seen)
	}
	return nil
}

func maintenance(ctx context.Context, c *clientv3.Client) error {
	endpoint := c.Endpoints()[0]
	status, err := c.Status(ctx, endpoint)
	if err != nil {
		return err
	}
	members, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	if len(members.Members) != 1 || members.Members[0].ID != status.Leader {
		return fmt.Errorf("expected one member that leads, seen %v and leader %x", members.Members, status.Leader)
	}
	before, err := c.HashKV(ctx, endpoint, 0)
	if err != nil {
		return err
	}
	after, err := c.HashKV(ctx, endpoint, before.HashRevision)
	if err != nil {
		return err
	}
	if before.Hash != after.Hash {
		return fmt.Errorf("expected hash %d again, seen %d", before.Hash, after.Hash)
	}
	return nil
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}, DialTimeout: 5 * time.Second})
	if err != nil {
		fmt.Printf("Bail out! %v\n", err)
		os.Exit(1)
	}
	defer client.Close()
	tests := []test{{"put and get", putAndGet}, {"errors are the client's own", wantErrors},
		{"transactions", transactions}, {"the life of a lease", leaseLife}, {"errors of leases", leaseErrors},
		{"many leases on one stream", keepMany}, {"renewals sent ahead", pipelined},
		{"sessions", sessions}, {"defragmentation", defragment}, {"pages at one revision while others write and compact", pages},
		{"maintenance", maintenance}}
	if len(os.Args) > 2 && os.Args[2] == "watch" {
		tests = watchTests()
	}
	if len(os.Args) > 2 && os.Args[2] == "restart" {
		tests = []test{{"watch: over a restart", watchOverRestart}}
	}
	fmt.Printf("1..%d\n", len(tests))
	status := 0
	for i, t := range tests {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		if err := t.run(ctx, client); err != nil {
			fmt.Printf("# %v\nnot ok %d - go: %s\n", err, i+1, t.name)
			status = 1
		} else {
			fmt.Printf("ok %d - go: %s\n", i+1, t.name)
		}
		cancel()
	}
	os.Exit(status)
}
