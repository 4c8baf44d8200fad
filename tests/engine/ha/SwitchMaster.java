import java.net.InetSocketAddress;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.ha.autoswitch.AutoSwitchHAService;

/**
 * A real 5.3.3 store that a controller would make master: STORE PORT SEGMENT_BYTES MESSAGES EPOCH...
 * Each epoch gets so many messages. The line "ready" says that slaves may connect. It goes on until it is killed.
 */
public class SwitchMaster {
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);

    public static void main(String[] args) throws Exception {
        Map<String, String> options = RefStore.opt;
        options.put("store", args[0]);
        options.put("ha-port", args[1]);
        options.put("commitlog-size", args[2]);
        options.put("cq-size", "400");
        options.put("slots", "500");
        options.put("index-num", "1000");
        BrokerConfig broker = new BrokerConfig();
        broker.setEnableControllerMode(true);
        DefaultMessageStore store = Compat.newStore(RefStore.config(), broker);
        require(store.load(), "load");
        store.start();
        AutoSwitchHAService ha = (AutoSwitchHAService) store.getHaService();
        ha.setLocalBrokerId(1L);
        ha.setSyncStateSet(new HashSet<>(Collections.singleton(1L)));
        for (int i = 4; i < args.length; i++) {
            require(ha.changeToMaster(Integer.parseInt(args[i])), "epoch " + args[i]);
            for (int n = 0; n < Integer.parseInt(args[3]); n++) {
                PutMessageResult result = store.putMessage(message("epoch " + args[i] + " message " + n, n));
                require(result.isOk(), result.toString());
            }
        }
        System.out.println("ready");
        System.out.flush();
        Thread.sleep(Long.MAX_VALUE);
    }

    private static MessageExtBrokerInner message(String body, int number) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic("T");
        message.setQueueId(number % 4);
        message.setBody(body.getBytes());
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(HOST);
        message.setStoreHost(HOST);
        MessageAccessor.setProperties(message, new HashMap<>());
        message.setKeys("k" + number);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }
}
